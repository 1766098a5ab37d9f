#!/usr/bin/env bash
# Eight real peers with emulated distances crawl a synthetic web of many hosts; then each host is asked who crawled it. Prints the share of hosts
# that are at their nearest leaf peer, by the matrix and not by what was measured, and fails if it is under the goal. Loopback only.
#
#   scripts/placement.sh [--latency FILE] [--hosts N] [--goal PERCENT] [FLAG OF RUN]...
#
# FILE is a square matrix of round trips in ms (CSV, gzip or not); without one, 240 points are drawn on a plane 200 ms wide, each with a last mile
# of its own. A peer counts as nearest within 1 ms, the noise of a measurement on a busy machine. Needs jq and curl; about a minute.
set -euo pipefail
export LC_ALL=C
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
web='' peers=8 hosts=40 goal=90 latency='' flags=()
finish() {
  local status=$?
  trap - EXIT INT TERM
  [ ! -e "$work/ring/cluster.json" ] || "$work/apoidea" cluster down --dir "$work/ring" >/dev/null 2>&1 || true
  [ -z "$web" ] || kill "$web" 2>/dev/null || true
  if [ "${KEEP:-}" = 1 ]; then echo "kept: $work" >&2; else rm -rf "$work"; fi
  exit "$status"
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
die() { echo "$0: $*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    --latency) latency=$2; shift 2 ;;
    --hosts) hosts=$2; shift 2 ;;
    --goal) goal=$2; shift 2 ;;
    *) flags+=("$1"); shift ;;
  esac
done
for tool in jq curl awk; do command -v $tool >/dev/null || die "$tool is missing"; done
if [ -n "${APOIDEA:-}" ]; then cp "$APOIDEA" "$work/apoidea"; else (cd "$root" && CGO_ENABLED=0 go build -o "$work/apoidea" ./cmd/apoidea); fi
apoidea() { timeout 120 "$work/apoidea" "$@"; }

if [ -z "$latency" ]; then
  latency=$work/rtt.csv
  awk 'BEGIN { srand(7); n = 240
    for (i = 0; i < n; i++) { x[i] = 200 * rand(); y[i] = 120 * rand(); mile[i] = 1 + 6 * rand() }
    for (i = 0; i < n; i++) for (j = 0; j < n; j++)
      printf "%.3f%s", i == j ? 0 : sqrt((x[i]-x[j])^2 + (y[i]-y[j])^2) + mile[i] + mile[j], j == n - 1 ? "\n" : "," }' >"$latency"
fi
case $latency in *.gz) gzip -dc "$latency" ;; *) cat "$latency" ;; esac >"$work/matrix.csv"

"$work/apoidea" web serve --listen 127.0.0.1:0 --hosts "$hosts" --pages 80 --page-bytes 2000 --error-share 0 --json >"$work/web.json" 2>"$work/web.err" &
web=$!
for _ in $(seq 100); do [ -s "$work/web.json" ] && break; sleep 0.05; done
[ -s "$work/web.json" ] || die "the web does not start: $(cat "$work/web.err")"
mapfile -t seeds < <(jq -r '.seeds[]' "$work/web.json")

apoidea cluster up -n $peers --dir "$work/ring" --latency "$latency" --allow-private --delay 10ms --archive none --quiet "${flags[@]}"
apoidea crawl "${seeds[@]}" --scope '*.web.localhost' --wait --quiet --data-dir "$work/ring/peer1" >/dev/null
for i in $(seq $peers); do
  apoidea status --json --data-dir "$work/ring/peer$i" | jq -r --argjson row $((i - 1)) '"peer \(.peer) \($row)"'
done >"$work/facts"
for host in $(apoidea ring hosts --json --data-dir "$work/ring/peer1" | jq -r .host); do
  apoidea host "$host" --json --data-dir "$work/ring/peer1" | tee -a "$work/hosts.json" |
    jq -r '"host \(.host) \(.latency_row // -1) \(.placed_at // "-") \([.placement[]?.peer] | join(","))"'
done >>"$work/facts"

audit=$(curl -fsS "$(jq -r .audit "$work/web.json")")
awk -v goal="$goal" '
  FILENAME ~ /matrix/ { n = split($0, cell, ","); for (j = 1; j <= n; j++) rtt[NR - 1, j - 1] = cell[j]; next }
  $1 == "peer" { row[$2] = $3; next }
  { hosts++
    k = split($5, asked, ","); sumAsked += k
    best = 1e9
    for (i = 1; i <= k; i++) { d = (rtt[row[asked[i]], $3] + rtt[$3, row[asked[i]]]) / 2; if (d < best) best = d }
    if (!($4 in row) || $3 < 0 || k == 0) { lost++; next }
    d = (rtt[row[$4], $3] + rtt[$3, row[$4]]) / 2
    if (d <= best) exact++
    if (d <= best + 1) near++
    else printf "  %s: %.1f ms, the nearest of %d is at %.1f ms\n", $2, d, k, best
    excess += d - best }
  END {
    if (!hosts) { print "no host was met"; exit 1 }
    printf "%d hosts, %.1f leaf peers asked a host, %d hosts without an answer\n", hosts, sumAsked / hosts, lost
    printf "nearest leaf peer by the matrix: %.1f %% (within 1 ms), %.1f %% exactly; %.2f ms further than the nearest in the mean\n", 100 * near / hosts, 100 * exact / hosts, excess / hosts
    ok = 100 * near / hosts >= goal
    printf "goal %d %%: %s\n", goal, ok ? "reached" : "missed"
    exit !ok }' "$work/matrix.csv" "$work/facts" || failed=1
jq -r '.totals | "seen by the web: \(.requests) requests, \(.probes) HEAD probes, \(.workers | length) workers, \(.overlaps) overlaps of workers at one host, \(.robots_violations) robots violations"' <<<"$audit"
jq -e '.totals | .overlaps == 0 and .robots_violations == 0' <<<"$audit" >/dev/null || { echo "the rules of the site were broken"; failed=1; }
exit "${failed:-0}"
