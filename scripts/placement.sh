#!/usr/bin/env bash
# Real peers with emulated distances crawl a synthetic web of many hosts; then the ring is asked who crawled each of them, and the web who came. Prints for
# each strategy, by the matrix and not by what was measured: the share of pages that the nearest peer fetched (within 1 ms, or 5 %) and of hosts that were
# placed at it in the end, the regret (mean round trip of a page beyond the nearest peer's), the connects without a request and the HEAD requests a host that the
# web saw, processor time a page, and how long the crawl took.
# Fails if rtt or adaptive has fewer hosts there in the end than the goal, if a crawl does not end, if two strategies found different pages, or if a rule of the sites was broken. Loopback only.
#
#   scripts/placement.sh [--latency FILE] [--peers N] [--hosts N] [--pages N] [--pareto] [--goal PERCENT] [--runs N] [--placements "NAME..."] [FLAG OF RUN]...
#
# FILE is a square matrix of round trips in ms (CSV, gzip or not); without one, 240 points are drawn on a plane 200 ms wide, each with a last mile
# of its own, neighbours in neighbouring rows, and --placement ipmicra is told so by a hierarchy of address ranges. --pareto draws the pages of each host around
# the mean that --pages gives (shape 1.2), at most 50 times as many. --placements (default rtt; "all" for every one of them) are tried one after another, each
# --runs times (default once). A probe is one to five TCP connects that carry no request, or one HEAD request. SHOW=1 lists why hosts were placed where they are,
# and each host of rtt that missed. Needs jq and curl; about half a minute each.
. "$(dirname "$0")/lib.sh"

web='' ring='' peers=8 hosts=40 pages=80 pareto=() goal=90 runs=1 latency='' hierarchy='' placements=rtt flags=()
stop() {
  [ -z "$ring" ] || [ ! -e "$ring/cluster.json" ] || apoidea cluster down --dir "$ring" >/dev/null 2>&1 || true
  [ -z "$web" ] || kill "$web" 2>/dev/null || true
  ring='' web=''
}
at_end stop

while [ $# -gt 0 ]; do
  case $1 in
    --latency) latency=$2; shift 2 ;;
    --hosts) hosts=$2; shift 2 ;;
    --pages) pages=$2; shift 2 ;;
    --peers) peers=$2; shift 2 ;;
    --pareto) pareto=(--pareto 1.2); shift ;;
    --goal) goal=$2; shift 2 ;;
    --runs) runs=$2; shift 2 ;;
    --placement | --placements) placements=$2; shift 2 ;;
    *) flags+=("$1"); shift ;;
  esac
done
[ "$placements" != all ] || placements="rtt adaptive ipmicra coordinates geo random owner"
need jq jq
need curl curl
build_apoidea
apoidea() { timeout 300 "$work/bin/apoidea" "$@"; }

# plane draws the points: the peers anywhere, the sites cell by cell.
plane() {
  awk -v peers=$peers 'BEGIN { srand(7); n = 240
    for (i = 0; i < n; i++) { x[i] = 200 * rand(); y[i] = 120 * rand(); mile[i] = 1 + 6 * rand() }
    for (i = peers; i < n; i++) for (j = i + 1; j < n; j++) if (cell(j) < cell(i)) { swap(x, i, j); swap(y, i, j); swap(mile, i, j) }
    for (i = 0; i < n; i++) for (j = 0; j < n; j++)
      printf "%.3f%s", i == j ? 0 : sqrt((x[i]-x[j])^2 + (y[i]-y[j])^2) + mile[i] + mile[j], j == n - 1 ? "\n" : "," }
    function cell(i) { return int(x[i] / 25) * 100 + int(y[i] / 30) }
    function swap(a, i, j,   t) { t = a[i]; a[i] = a[j]; a[j] = t }'
}
# ranges are the addresses of the rows: 8 of them to an organisation, 64 to a registry.
ranges() {
  awk 'BEGIN { print "prefix,org"
    for (i = 0; i < 256; i += 64) printf "127.128.%d.0/18,registry %d\n", i, i / 64
    for (i = 0; i < 256; i += 8) printf "127.128.%d.0/21,organisation %d\n", i, i / 8
    for (i = 0; i < 256; i++) printf "127.128.%d.0/24,organisation %d\n", i, int(i / 8) }'
}
if [ -z "$latency" ]; then
  latency=$work/rtt.csv hierarchy=$work/ranges.csv
  plane >"$latency"
  ranges >"$hierarchy"
fi
case $latency in *.gz) gzip -dc "$latency" ;; *) cat "$latency" ;; esac >"$work/matrix.csv"

# crawl NAME DIR: a cluster that places by NAME crawls a web of its own. What it has to tell is in DIR afterwards.
crawl() {
  local name=$1 dir=$2 extra=() seeds i pid
  mkdir -p "$dir"
  [ "$name" != ipmicra ] || [ -z "$hierarchy" ] || extra=(--hierarchy "$hierarchy")
  "$work/bin/apoidea" web serve --listen 127.0.0.1:0 --hosts "$hosts" --pages "$pages" "${pareto[@]}" --page-bytes 2000 --error-share 0 --json >"$dir/web.json" 2>"$dir/web.err" &
  web=$!
  within 10 [ -s "$dir/web.json" ] || die "the web does not start: $(cat "$dir/web.err")"
  mapfile -t seeds < <(jq -r '.seeds[]' "$dir/web.json")
  ring=$dir/ring
  apoidea cluster up -n $peers --dir "$ring" --latency "$latency" --allow-private --delay 10ms --archive none --quiet --placement "$name" "${extra[@]}" "${flags[@]}"
  local begun=$EPOCHREALTIME
  apoidea crawl "${seeds[@]}" --scope '*.web.localhost' --wait --quiet --data-dir "$ring/peer1" >/dev/null || return 1
  awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "took %.1f\n", b - a }' >"$dir/facts"
  for i in $(seq $peers); do
    apoidea status --json --data-dir "$ring/peer$i" | jq -r --argjson row $((i - 1)) '"peer \(.peer) \($row)"'
    pid=$(pgrep -f -- "$ring/peer$i( |$)" | head -1)
    awk '{ printf "cpu %.2f\n", ($14 + $15) / 100 }' "/proc/$pid/stat"
  done >>"$dir/facts"
  apoidea ring hosts --json --data-dir "$ring/peer1" >"$dir/hosts.json"
  curl -fsS "$(jq -r .audit "$dir/web.json")" >"$dir/audit.json"
  jq -r '"host \(.host | split(":")[0]) \(.latency_row // -1) \(.placed_at // "-")"' "$dir/hosts.json" >>"$dir/facts"
  jq -r '"web \([.connects[]?] | add // 0) \(.totals.probes) \(.hosts_visited)", (.hosts[] | .host as $h | .requests_by | to_entries[] | "pages \($h) \(.key | split(".")[3] | tonumber - 1) \(.value)")' "$dir/audit.json" >>"$dir/facts"
  if [ "${SHOW:-}" = 1 ]; then
    for host in $(jq -r .host "$dir/hosts.json" | head -400); do apoidea host "$host" --json --data-dir "$ring/peer1"; done >"$dir/why.json"
  fi
  stop
}

# judge NAME DIR GOAL: prints what came of it; fails if it missed.
judge() {
  awk -v goal="$3" -v name="$1" -v peers="$peers" '
    FILENAME ~ /matrix/ { n = split($0, cell, ","); for (j = 1; j <= n; j++) rtt[NR - 1, j - 1] = cell[j]; next }
    function way(row, site) { return (rtt[row, site] + rtt[site, row]) / 2 }
    function near(d, best) { return d <= best + 1 || d <= best * 1.05 }
    $1 == "took" { took = $2 }
    $1 == "cpu" { cpu += $2 }
    $1 == "peer" { row[$2] = $3 }
    $1 == "web" { connects = $2; heads = $3; visited = $4 }
    $1 == "host" { hosts++; at[$2] = $3
      if (!($4 in row) || $3 < 0) { lost++; next }
      best[$2] = 1e9
      for (r = 0; r < peers; r++) if (way(r, $3) < best[$2]) best[$2] = way(r, $3)
      if (near(way(row[$4], $3), best[$2])) placed++ }
    $1 == "pages" && ($2 in best) { pages += $4; d = way($3, at[$2]); if (near(d, best[$2])) well += $4; excess += $4 * (d - best[$2]) }
    END {
      if (!hosts || !pages) { print name ": no host was met"; exit 1 }
      share = 100 * well / pages
      printf "%-12s %d peers, %4d hosts, %5d pages in %5.1f s: %5.1f %% of the pages by the nearest, %5.1f %% of the hosts at it in the end, regret %5.2f ms; %.2f connects without a request and %.2f HEAD requests a host; %.2f ms of processor a page\n",
        name, peers, hosts, pages, took, share, 100 * placed / hosts, excess / pages, connects / visited, heads / visited, 1000 * cpu / pages
      if (lost) printf "  %d hosts were placed nowhere\n", lost
      at_it = 100 * placed / hosts
      if (goal > 0) printf "  goal %d %% of the hosts: %s\n", goal, (at_it >= goal) ? "reached" : "missed"
      exit (at_it < goal || lost > 0) }' "$work/matrix.csv" FS=' ' "$2/facts"
}

failed=0 pagesOf=''
for name in $placements; do
  for run in $(seq "$runs"); do
    dir=$work/$name.$run
    crawl "$name" "$dir" || { echo "$name: the crawl did not end"; stop; failed=1; continue; }
    judge "$name" "$dir" "$([[ " rtt adaptive " = *" $name "* ]] && echo "$goal" || echo 0)" || failed=1
    jq -r '.totals | "  the web saw \(.requests) requests for \(.distinct_urls) URLs, \(.workers | length) workers, \(.overlaps) overlaps of workers at one host, \(.robots_violations) robots violations"' "$dir/audit.json"
    jq -e '.totals | .overlaps == 0 and .robots_violations == 0' "$dir/audit.json" >/dev/null || { echo "  the rules of the site were broken"; failed=1; }
    found=$(jq .totals.distinct_urls "$dir/audit.json")
    [ "${pagesOf:=$found}" = "$found" ] || { echo "  $found URLs, where the first crawl found $pagesOf"; failed=1; }
    [ "${SHOW:-}" != 1 ] || jq -rs 'map(.placed_why) | group_by(gsub("[0-9.]+"; "#")) | map("    \(length) x \(.[0])") | .[]' "$dir/why.json"
  done
done
exit "$failed"
