#!/usr/bin/env bash
# kill -9 in the middle of a crawl: of a lone peer, then of all of eight; started again, the crawl must end with every page, and fetch again
# no more than what was in flight.
#
#   scripts/crash.sh [--in-flight N]         most pages that may be fetched twice, default 64 a peer
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/docs.sh"

in_flight=64
[ "${1:-}" != --in-flight ] || in_flight=$2
build
serve_all_docs 3
mapfile -t hosts < <(sites 3)
walker "${hosts[@]}" >"$work/walk.urls" 2>/dev/null
total=$(wc -l <"$work/walk.urls")
peer=(--allow-private --delay 0 --archive gzip --quiet)

# quietly FILE COMMAND...: the command's output goes to the file, its end is shown if it fails.
quietly() {
  local file=$1
  shift
  "$@" >"$file" 2>&1 || { local status=$?; tail -5 "$file" >&2; return $status; }
}
# wait_for_lines MARK N PID: until N lines were logged since the mark; fails if the process ends before.
wait_for_lines() {
  while [ "$(log_since "$1" | wc -l)" -lt "$2" ]; do kill -0 "$3" 2>/dev/null || return 1; sleep 0.02; done
}
few_again() { # LOG N
  local again
  again=$(log_ok <"$1" | sort | uniq -d | wc -l)
  echo "      $again of $total pages fetched again"
  [ "$again" -le "$2" ]
}
after() { # NAME MARK BOUND
  log_since "$2" >"$work/$1.log"
  log_ok <"$work/$1.log" | sort -u >"$work/$1.urls"
  check "$1: the walker's pages" same_set "$work/walk.urls" "$work/$1.urls"
  check "$1: at most $3 pages fetched again" few_again "$work/$1.log" "$3"
}

lone() {
  local mark crawl
  mark=$(log_mark)
  apoidea run "${hosts[@]}" --until-idle --data-dir "$work/lone" "${peer[@]}" >"$work/lone.out" 2>&1 &
  crawl=$!
  check "lone: killed after $((total / 3)) requests" wait_for_lines "$mark" $((total / 3)) $crawl
  kill -9 $crawl 2>/dev/null || true
  wait $crawl 2>/dev/null || true
  check "lone: started again, exit status 0" quietly "$work/lone.again" apoidea run "${hosts[@]}" --until-idle --data-dir "$work/lone" "${peer[@]}"
  after lone "$mark" "$in_flight"
}

eight() {
  local mark up pid
  mark=$(log_mark)
  apoidea cluster up -n 8 --dir "$work/eight" "${hosts[@]}" --until-idle "${peer[@]}" >"$work/eight.out" 2>&1 &
  up=$!
  check "eight: killed after $((total / 3)) requests" wait_for_lines "$mark" $((total / 3)) $up
  # The command first: it would notice that its peers are gone.
  kill -9 $up 2>/dev/null || true
  for pid in $(cat "$work"/eight/peer*/peer.pid 2>/dev/null); do kill -9 "$pid" 2>/dev/null || true; done
  wait $up 2>/dev/null || true
  check "eight: started again, exit status 0" quietly "$work/eight.again" apoidea cluster up -n 8 --dir "$work/eight" "${hosts[@]}" --until-idle "${peer[@]}"
  check "eight: one worker a host at a time" one_worker < <(log_since "$mark")
  after eight "$mark" $((8 * in_flight))
}

at_end "apoidea cluster down --dir '$work/eight' >/dev/null 2>&1"
lone
eight
check "the archives of both read by two independent tools" "$root/scripts/warc-check.sh" "$work/lone" "$work/eight"
exit $failed
