#!/usr/bin/env bash
# Eight real peers with emulated distances crawl a synthetic web of many hosts; then each host is asked who crawled it, and the web who came. Prints the share
# of hosts that are at their nearest leaf peer, by the matrix and not by what was measured, each miss with what was measured, and the probing that the web saw.
# Fails if rtt is under the goal, if a crawl does not end, if two strategies found different pages, or if a rule of the sites was broken. Loopback only.
#
#   scripts/placement.sh [--latency FILE] [--hosts N] [--pages N] [--goal PERCENT] [--runs N] [--placements "NAME..."] [FLAG OF RUN]...
#
# FILE is a square matrix of round trips in ms (CSV, gzip or not); without one, 240 points are drawn on a plane 200 ms wide, each with a last mile
# of its own, neighbours in neighbouring rows, and --placement ipmicra is told so by a hierarchy of address ranges. A peer counts as nearest within 1 ms, the noise
# of a measurement on a busy machine. --placements (default rtt; "all" for every one of them) are tried one after another, each --runs times (default
# once). A probe is two to five TCP connects that carry no request (as many as it takes until two agree), or one HEAD request. Needs jq and curl; about half a minute each.
. "$(dirname "$0")/lib.sh"

web='' ring='' peers=8 hosts=40 pages=80 goal=90 runs=1 latency='' hierarchy='' placements=rtt flags=()
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
apoidea() { timeout 180 "$work/bin/apoidea" "$@"; }

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
  local name=$1 dir=$2 extra=() seeds i
  mkdir -p "$dir"
  [ "$name" != ipmicra ] || [ -z "$hierarchy" ] || extra=(--hierarchy "$hierarchy")
  "$work/bin/apoidea" web serve --listen 127.0.0.1:0 --hosts "$hosts" --pages "$pages" --page-bytes 2000 --error-share 0 --json >"$dir/web.json" 2>"$dir/web.err" &
  web=$!
  within 10 [ -s "$dir/web.json" ] || die "the web does not start: $(cat "$dir/web.err")"
  mapfile -t seeds < <(jq -r '.seeds[]' "$dir/web.json")
  ring=$dir/ring
  apoidea cluster up -n $peers --dir "$ring" --latency "$latency" --allow-private --delay 10ms --archive none --quiet --placement "$name" "${extra[@]}" "${flags[@]}"
  local begun=$SECONDS
  apoidea crawl "${seeds[@]}" --scope '*.web.localhost' --wait --quiet --data-dir "$ring/peer1" >/dev/null || return 1
  echo $((SECONDS - begun)) >"$dir/took"
  for i in $(seq $peers); do
    apoidea status --json --data-dir "$ring/peer$i" | jq -r --argjson row $((i - 1)) '"peer \(.peer) \($row)"'
  done >"$dir/facts"
  for host in $(apoidea ring hosts --json --data-dir "$ring/peer1" | jq -r .host); do
    apoidea host "$host" --json --data-dir "$ring/peer1"
  done >"$dir/hosts.json"
  jq -r '"host \(.host) \(.latency_row // -1) \(.placed_at // "-") \([.placement[]? | "\(.peer)=\(if .error then "failed" else .rtt_ms end)"] | join(",") | if . == "" then "-" else . end) \(.placed_why // "-" | gsub(" "; "_"))"' "$dir/hosts.json" >>"$dir/facts"
  curl -fsS "$(jq -r .audit "$dir/web.json")" >"$dir/audit.json"
  stop
}

# judge NAME DIR GOAL: prints what came of it; fails if it missed.
judge() {
  local probes
  probes=$(jq -r '"\([.connects[]?] | add // 0) \(.totals.probes) \(.hosts_visited)"' "$2/audit.json")
  awk -v goal="$3" -v name="$1" -v took="$(cat "$2/took")" -v probes="$probes" '
    FILENAME ~ /matrix/ { n = split($0, cell, ","); for (j = 1; j <= n; j++) rtt[NR - 1, j - 1] = cell[j]; next }
    $1 == "peer" { row[$2] = $3; next }
    function way(peer, site) { return (rtt[row[peer], site] + rtt[site, row[peer]]) / 2 }
    { hosts++
      if (!($4 in row) || $3 < 0) { lost++; printf "  %s: placed nowhere: %s\n", $2, $6; next }
      k = $5 == "-" ? 0 : split($5, told, ","); known += k
      best = 1e9
      for (p in row) if (way(p, $3) < best) { best = way(p, $3); nearest = p }
      d = way($4, $3)
      if (d <= best) exact++
      if (d <= best + 1) near++
      else if (goal > 0) {
        printf "  %s at row %d: peer %d took it at %.1f ms, peer %d is at %.1f ms; measured (by peer, ms):", $2, $3, row[$4] + 1, d, row[nearest] + 1, best
        for (i = 1; i <= k; i++) { split(told[i], m, "="); printf " %d: %s", row[m[1]] + 1, m[2] }
        gsub("_", " ", $6); printf "; %s\n", $6
      }
      excess += d - best }
    END {
      if (!hosts) { print "no host was met"; exit 1 }
      split(probes, seen, " ")
      share = 100 * near / hosts
      printf "%-12s %3d hosts in %3d s: %5.1f %% at the nearest of 8 (within 1 ms), %5.1f %% exactly, %5.2f ms further in the mean; %.1f peers known of a host, the web saw %.1f connects without a request and %.1f HEAD requests a host\n",
        name, hosts, took, share, 100 * exact / hosts, excess / max(1, hosts - lost), known / hosts, seen[1] / seen[3], seen[2] / seen[3]
      if (lost) printf "  %d hosts were placed nowhere\n", lost
      if (goal > 0) printf "  goal %d %%: %s\n", goal, (share >= goal) ? "reached" : "missed"
      exit (share < goal || lost > 0) }
    function max(a, b) { return a > b ? a : b }' "$work/matrix.csv" FS=' ' "$2/facts"
}

failed=0 pagesOf=''
for name in $placements; do
  for run in $(seq "$runs"); do
    dir=$work/$name.$run
    crawl "$name" "$dir" || { echo "$name: the crawl did not end"; stop; failed=1; continue; }
    judge "$name" "$dir" "$([ "$name" = rtt ] && echo "$goal" || echo 0)" || failed=1
    jq -r '.totals | "  the web saw \(.requests) requests for \(.distinct_urls) URLs, \(.workers | length) workers, \(.overlaps) overlaps of workers at one host, \(.robots_violations) robots violations"' "$dir/audit.json"
    jq -e '.totals | .overlaps == 0 and .robots_violations == 0' "$dir/audit.json" >/dev/null || { echo "  the rules of the site were broken"; failed=1; }
    found=$(jq .totals.distinct_urls "$dir/audit.json")
    [ "${pagesOf:=$found}" = "$found" ] || { echo "  $found URLs, where the first crawl found $pagesOf"; failed=1; }
    [ "${SHOW:-}" != 1 ] || jq -rs 'map(.placed_why) | group_by(gsub("[0-9.]+"; "#")) | map("    \(length) x \(.[0])") | .[]' "$dir/hosts.json"
  done
done
exit "$failed"
