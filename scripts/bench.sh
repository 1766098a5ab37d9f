#!/usr/bin/env bash
# The figures of the project, each from one run on this machine: CPU seconds are user and system time of all processes of a crawl.
#
#   scripts/bench.sh [--quick] [PART]...     default: all parts
#
#   speed    pages per CPU second of one peer (WARC with gzip, no delay) beside colly v2 (tuned, storing nothing), same pages
#   cluster  eight peers together beside one, over the same hosts
#   memory   a peer idle in a ring of 16; a peer after 100,000 pages with a million URLs seen
#   lookups  owners of 1,000 hosts in a settled ring of 32 against global truth, and calls a lookup
#   broad    what a host costs, of 2,000 to 200,000; one of eight peers killed; a million hosts known
#   distance pages per second of one peer with six fetchers by emulated RTT of the sites (Apoidea, figure 4)
#   fetchers pages per second, CPU time and RSS of one peer on one core by number of fetchers, alone and beside a busy process (Apoidea, figure 5)
#   filters  memory and false positives of the paper's filters: 1,000 hosts of 4,000 URLs (Apoidea 3.2)
#   peers    CPU time and messages of a page with 1, 2, 4 and 8 peers, without replicas, and of eight peers that do not communicate
#
# --quick takes one tree of documentation in place of eight, one run in place of three, and a tenth of the pages and hosts. The status is 1 if a crawl
# failed or its pages were not those of an independent walker; a figure short of its goal is only said to be so.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/docs.sh"

quick=0 parts=()
for arg in "$@"; do
  case $arg in
    --quick) quick=1 ;;
    speed | cluster | memory | lookups | broad | distance | fetchers | filters | peers) parts+=("$arg") ;;
    *) die "unknown argument $arg; see the head of this file" ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(speed cluster memory lookups broad distance fetchers filters peers)
if [ $quick = 1 ]; then trees=1 runs=1; else trees=8 runs=3; fi
wrong=0

figure() { printf '%-58s %12s  %s\n' "$1" "$2" "${3:-}"; }
# goal VALUE OP GOAL: "goal >= 1.5: reached"
goal() { awk -v v="$1" -v g="$3" -v op="$2" 'BEGIN { ok = op == ">=" ? v >= g : v <= g; printf "goal %s %s: %s\n", op, g, ok ? "reached" : "short" }'; }
ratio() { awk -v a="$1" -v b="$2" -v f="${3:-%.2f}" 'BEGIN { if (b > 0) printf f, a / b; else print "-" }'; }
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }
wrong() { say "WRONG: $*"; wrong=1; }

# crawl NAME COMMAND...: runs one crawl of the documentation; leaves $work/NAME.urls (URLs that answered 200, from the server's log) and
# adds a line "pages cpu seconds" to $work/NAME.runs.
crawl() {
  local name=$1 mark
  shift
  mark=$(log_mark)
  cputime -o "$work/cost" "$@" >"$work/$name.out" 2>&1 || { wrong "$name: exit status $?"; tail -5 "$work/$name.out" >&2; }
  log_since "$mark" | log_ok | sort -u >"$work/$name.urls"
  printf '%s %s\n' "$(wc -l <"$work/$name.urls")" "$(cat "$work/cost")" >>"$work/$name.runs"
}
cpu_of() { awk '{ print $2 }' "$work/$1.runs" | median; }
pages_of() { awk 'END { print $1 }' "$work/$1.runs"; }
per_cpu() { ratio "$(pages_of "$1")" "$(cpu_of "$1")" %.0f; }
report() { figure "$1: pages per CPU second" "$(per_cpu "$2")" "$(pages_of "$2") pages, $(cpu_of "$2") CPU s"; }

peer=(--allow-private --delay 0 --archive gzip --quiet)

speed() {
  local site bytes
  if [ $quick = 1 ]; then site=$(site a); else site=$(site all); fi
  walker "$site" 2>/dev/null >"$work/walk.urls"
  bytes=$(awk '$5 == 200 { n++; b += $6 } END { printf "%.0f", b / n / 1024 }' "$docs_log")
  for _ in $(seq $runs); do
    crawl colly colly "$site"
    crawl one "$work/bin/apoidea" run "$site" --until-idle --data-dir "$(mktemp -d "$work/peer.XXXX")" "${peer[@]}"
    rm -rf "$work"/peer.*
  done
  same_set "$work/walk.urls" "$work/colly.urls" || wrong "colly and the walker found different pages"
  same_set "$work/walk.urls" "$work/one.urls" || wrong "the peer and the walker found different pages"
  echo "one host, mean page $bytes KiB"
  report "colly v2, storing nothing" colly
  report "one peer, WARC with gzip" one
  local r
  r=$(ratio "$(per_cpu one)" "$(per_cpu colly)")
  figure "one peer / colly" "$r" "$(goal "$r" '>=' 1.5)"
}

cluster() {
  local hosts r
  mapfile -t hosts < <(sites 8)
  walker "${hosts[@]}" 2>/dev/null >"$work/walk.urls"
  for _ in $(seq $runs); do
    crawl alone "$work/bin/apoidea" run "${hosts[@]}" --until-idle --data-dir "$(mktemp -d "$work/peer.XXXX")" "${peer[@]}"
    crawl eight "$work/bin/apoidea" cluster up -n 8 --dir "$(mktemp -d "$work/peer.XXXX")" "${hosts[@]}" --until-idle "${peer[@]}"
    rm -rf "$work"/peer.*
  done
  same_set "$work/walk.urls" "$work/alone.urls" || wrong "one peer and the walker found different pages"
  same_set "$work/walk.urls" "$work/eight.urls" || wrong "eight peers and the walker found different pages"
  echo "${#hosts[@]} hosts"
  report "one peer" alone
  report "eight peers together" eight
  r=$(ratio "$(per_cpu eight)" "$(per_cpu alone)")
  figure "eight peers / one" "$r" "$(goal "$r" '>=' 0.7)"
}

rss() { apoidea status --json --data-dir "$1" 2>/dev/null | jq -r '.rss_bytes / 1048576 | floor'; }

memory() {
  local dir=$work/ring16 most
  apoidea cluster up -n 16 --dir "$dir" --quiet >"$work/ring16.out" 2>&1 || { wrong "ring of 16: $(tail -1 "$work/ring16.out")"; return; }
  at_end "apoidea cluster down --dir '$dir' --quiet >/dev/null 2>&1"
  sleep "${IDLE:-60}" # settled, then idle
  most=$(for i in $(seq 16); do rss "$dir/peer$i"; done | sort -n | tail -1)
  apoidea cluster down --dir "$dir" --quiet >/dev/null 2>&1 || true
  figure "idle in a ring of 16: RSS of the largest peer, MiB" "$most" "$(goal "$most" '<=' 60)"

  local pages=100000 port=18781 seeds pid line last=
  [ $quick = 1 ] && pages=10000
  apoidea web serve --listen 127.0.0.1:$port --hosts $((pages / 500)) --pages 5000 --error-share 0 --json >"$work/web.json" 2>"$work/web.err" &
  pid=$!
  at_end "kill $pid 2>/dev/null"
  within 10 [ -s "$work/web.json" ] || true
  mapfile -t seeds < <(jq -r '.seeds[]' "$work/web.json")
  apoidea run "${seeds[@]}" --max-pages $pages --until-idle --data-dir "$work/large" "${peer[@]}" >"$work/large.out" 2>&1 &
  local crawl=$!
  at_end "kill $crawl 2>/dev/null"
  most=0
  while kill -0 $crawl 2>/dev/null; do
    line=$(apoidea status --json --data-dir "$work/large" 2>/dev/null | jq -r '"\(.rss_bytes / 1048576 | floor) \(.pages + .duplicates + .noindex) \(.urls_seen)"') || line=
    if [ -n "$line" ]; then last=$line; [ "${line%% *}" -gt $most ] && most=${line%% *}; fi
    sleep 1
  done
  wait $crawl || wrong "crawl of $pages pages: exit status $?: $(tail -1 "$work/large.out")"
  kill $pid
  figure "after $pages pages: largest RSS, MiB" "$most" "$(goal $most '<=' 200); last seen: RSS, pages, URLs seen = ${last:-none}"
}

lookups() {
  local dir=$work/ring32 n=1000 result
  [ $quick = 1 ] && n=200
  apoidea cluster up -n 32 --dir "$dir" --quiet >"$work/ring32.out" 2>&1 || { wrong "ring of 32: $(tail -1 "$work/ring32.out")"; return; }
  at_end "apoidea cluster down --dir '$dir' --quiet >/dev/null 2>&1"
  sleep 10
  for i in $(seq $((n / 2))); do apoidea ring lookup "warm$RANDOM$i.example" --json --data-dir "$dir/peer1" >/dev/null; done
  for i in $(seq $n); do apoidea ring lookup "host$RANDOM$i.example" --json --data-dir "$dir/peer1" | jq -c '{key, owner, calls}'; done >"$work/lookups"
  apoidea ring --json --data-dir "$dir/peer1" >"$work/members"
  apoidea cluster down --dir "$dir" --quiet >/dev/null 2>&1 || true
  # The owner of a key is the first member at or after it, round the circle.
  result=$(jq -rs --slurpfile ring "$work/members" '
    ($ring[0].members | map({position, peer}) | sort_by(.position)) as $m
    | [.[] | . as $l | (first($m[] | select(.position >= $l.key)) // $m[0]) as $o | {wrong: ($o.peer != $l.owner), calls}]
    | "\(map(select(.wrong)) | length) \((map(.calls) | add) / length) \($m | length)"' "$work/lookups")
  local bad=${result%% *} calls
  calls=$(cut -d' ' -f2 <<<"$result")
  figure "wrong owners of $n in a ring of ${result##* }" "$bad" "$(goal "$bad" '<=' 0)"
  figure "calls a lookup, warm" "$(printf '%.3f' "$calls")" "$(goal "$calls" '<=' 1.1)"
}

# serve_web PORT FLAG...: serves a synthetic web; its seeds are in seeds, its process in web.
serve_web() {
  apoidea web serve --listen "127.0.0.1:$1" --error-share 0 --json "${@:2}" >"$work/web.json" 2>"$work/web.err" &
  web=$!
  at_end "kill $web 2>/dev/null"
  within 20 [ -s "$work/web.json" ] || die "the synthetic web does not start: $(tail -1 "$work/web.err")"
  mapfile -t seeds < <(jq -r '.seeds[]' "$work/web.json")
}

# reading PORT...: sums over the peers with metrics at the ports: CPU seconds, requests to sites, calls made, bytes sent in calls of replicas.
reading() {
  local port
  for port in "$@"; do curl -sf "http://127.0.0.1:$port/metrics"; done | awk '
    /^process_cpu_seconds_total/ { cpu += $2 } /^apoidea_requests_total/ { pages += $2 }
    /^apoidea_calls_total.*"out"/ { calls += $2 } /^apoidea_call_bytes_total.*"out".*"replica"/ { bytes += $2 }
    END { printf "%.2f %d %d %d\n", cpu, pages, calls, bytes }'
}

# cost NAME RINGS PEERS FLAG...: RINGS rings of PEERS each crawl an equal part of the seeds; the start of the peers is not counted. Adds to
# $work/NAME.cost: CPU ms, calls, and bytes of replicas, each by page, and pages per second.
cost() {
  local name=$1 rings=$2 peers=$3 i before jobs=() ports=()
  for i in $(seq "$rings"); do
    ports+=($(seq $((18900 + 8 * i)) $((18899 + 8 * i + peers))))
    GOMAXPROCS=$((rings * peers > 2 ? 1 : 2)) apoidea cluster up -n "$peers" --dir "$work/ring$i" --metrics "127.0.0.1:${ports[-peers]}" --allow-private --delay 0 --quiet "${@:4}" >>"$work/$name.out" 2>&1 ||
      { wrong "$name: $(tail -1 "$work/$name.out")"; return; }
  done
  before="$(date +%s.%N) $(reading "${ports[@]}")"
  for i in $(seq "$rings"); do
    printf '%s\n' "${seeds[@]:(i - 1) * ${#seeds[@]} / rings:${#seeds[@]} / rings}" | apoidea crawl --seeds - --wait --quiet --data-dir "$work/ring$i/peer1" >>"$work/$name.out" 2>&1 &
    jobs+=($!)
  done
  wait "${jobs[@]}" || wrong "$name: $(tail -1 "$work/$name.out")"
  echo "$before $(date +%s.%N) $(reading "${ports[@]}")" | awk '{ n = $8 - $3
    printf "%.4f %.4f %.1f %.0f\n", 1000 * ($7 - $2) / n, ($9 - $4) / n, ($10 - $5) / n, n / ($6 - $1) }' >>"$work/$name.cost"
  for i in $(seq "$rings"); do apoidea cluster down --dir "$work/ring$i" --quiet >/dev/null 2>&1 || true; done
  rm -rf "$work"/ring*
}

# The cost of communication is what eight peers without replicas use beyond eight peers that each crawl alone.
peers() {
  local name shape
  at_end 'for name in "$work"/ring*; do apoidea cluster down --dir "$name" --quiet; done'
  column() { awk -v n="$1" '{ print $n }' "$work/$name.cost" | median; }
  for shape in "40 $((quick ? 20 : 200))" "$((quick ? 200 : 2000)) 4"; do
    rm -f "$work"/*.cost
    serve_web 18782 --hosts "${shape% *}" --pages "${shape#* }"
    for _ in $(seq $((quick ? 1 : 5))); do
      cost 1-peer 1 1
      cost 2-peers 1 2
      cost 4-peers 1 4
      cost 8-peers 1 8
      cost 8-peers-no-replicas 1 8 --replicas 1
      cost 8-alone 8 1
    done
    kill "$web"
    wait "$web" || true
    echo "${shape% *} hosts of ${shape#* } pages; by page: CPU ms (relative to one peer in the same round: median, least, most), calls made, bytes of calls to replicas; pages per second"
    for name in 1-peer 2-peers 4-peers 8-peers 8-peers-no-replicas 8-alone; do
      figure "$name" "$(column 1)" "$(paste -d' ' "$work/1-peer.cost" "$work/$name.cost" | awk '{ print $5 / $1 }' | sort -n | awk '
        { v[NR] = $1 } END { printf "%.2f (%.2f to %.2f)", v[int((NR + 1) / 2)], v[1], v[NR] }') $(column 2) $(column 3); $(column 4)"
    done
  done
}

# rate RTT FETCHERS COMMAND...: one peer, started by COMMAND, crawls sites at the emulated RTT in ms. Prints pages per second, CPU in percent of a core
# and RSS in MiB over six seconds, after three to warm up.
rate() {
  local rtt=$1 fetchers=$2 pid from=0 to
  printf '0,%s\n%s,0\n' "$rtt" "$rtt" >"$work/rtt.csv"
  "${@:3}" "$work/bin/apoidea" run "${seeds[@]}" --data-dir "$work/rate" --metrics 127.0.0.1:18899 --allow-private --delay 0 --quiet --fetchers "$fetchers" \
    --latency "$work/rtt.csv" --latency-row 0 --latency-peers 1 >"$work/rate.out" 2>&1 &
  pid=$!
  at_end "kill $pid 2>/dev/null"
  within 60 reading 18899 >/dev/null || die "no metrics: $(tail -1 "$work/rate.out")"
  sleep 3
  from="$(date +%s.%N) $(reading 18899)"
  sleep 6
  to="$(date +%s.%N) $(reading 18899) $(curl -sf http://127.0.0.1:18899/metrics | awk '/^process_resident_memory_bytes/ { print $2 }')"
  kill $pid
  wait $pid || true
  rm -rf "$work/rate"
  echo "$from $to" | awk '{ s = $6 - $1; printf "%.1f %.1f %.0f\n", ($8 - $3) / s, 100 * ($7 - $2) / s, $11 / 1048576 }'
}

distance() {
  local rtt
  serve_web 18783 --hosts 50 --pages 2000 --page-bytes 10000
  for _ in $(seq $runs); do for rtt in 18 195 281 261; do rate $rtt 6 >>"$work/$rtt.rates"; done; done
  kill "$web"
  for rtt in 18 195 281 261; do figure "sites at $rtt ms, six fetchers: pages per second" "$(median <"$work/$rtt.rates")" "of $runs runs"; done
}

fetchers() {
  local n busy
  serve_web 18784 --hosts 50 --pages 2000 --page-bytes 10000
  for _ in $(seq $runs); do
    for n in 1 2 4 6 8 16; do
      rate 20 $n taskset -c 0 >>"$work/$n-alone.rates"
      taskset -c 0 sh -c 'while :; do :; done' &
      busy=$!
      at_end "kill $busy 2>/dev/null"
      rate 20 $n taskset -c 0 nice -n 7 >>"$work/$n-busy.rates"
      kill $busy
    done
  done
  kill "$web"
  echo "pages per second, CPU in percent of a core, RSS in MiB; medians of $runs runs; busy: beside a process that has seven steps of nice more priority"
  for busy in alone busy; do
    for n in 1 2 4 6 8 16; do figure "$n fetchers, $busy" "$(median <"$work/$n-$busy.rates")" "$(awk '{ print $2 }' "$work/$n-$busy.rates" | median) % $(awk '{ print $3 }' "$work/$n-$busy.rates" | median) MiB"; done
  done
}

filters() {
  echo "1,000 hosts of 4,000 URLs in the filters of --seen bloom; 4,000,000 other URLs tested"
  (cd "$root" && go test ./node/services/hosts -run '^$' -bench SeenBloom -benchtime 1x) >"$work/filters" || wrong "filters: $(tail -1 "$work/filters")"
  awk '/^BenchmarkSeenBloom/ { for (i = 5; i < NF; i += 2) print $(i + 1), $i }' "$work/filters" | while read -r what value; do figure "$what" "$value"; done
}

broad() {
  local hosts=20000
  [ $quick = 0 ] || hosts=2000
  trial broad --hosts $hosts || wrong "a crawl of many hosts"
}

need jq jq
build
case " ${parts[*]} " in *" speed "* | *" cluster "*) if [[ " ${parts[*]} " == *" cluster "* ]]; then serve_all_docs 8; else serve_all_docs $trees; fi ;; esac
for part in "${parts[@]}"; do $part; done
exit $wrong
