#!/usr/bin/env bash
# A real documentation tree, crawled by one peer and by eight, held against an independent walker and the server's own log; then the same
# tree under a second name, as a mirror.
#
#   scripts/docs-tree.sh [--trees N]         N of the trees in docs.sh, default 3
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/docs.sh"

trees=3
[ "${1:-}" != --trees ] || trees=$2
need jq jq
build
mirror=$(doc_tree python3.11-doc python3.11/html)
serve_all_docs "$trees" "m=$mirror"
mapfile -t hosts < <(sites "$trees")
peer=(--allow-private --delay 0 --archive gzip --quiet)

walker "${hosts[@]}" >"$work/walk.urls" 2>/dev/null
walker --max-depth 3 "${hosts[@]}" >"$work/walk3.urls" 2>/dev/null
walker --max-depth 1 "${hosts[@]}" >"$work/walk1.urls" 2>/dev/null
echo "${#hosts[@]} hosts, $(wc -l <"$work/walk.urls") pages, $(wc -l <"$work/walk3.urls") of them within depth 3"

# crawled NAME COMMAND...: one crawl, its part of the log in $work/NAME.log, its pages in $work/NAME.urls.
crawled() {
  local name=$1 mark
  shift
  mark=$(log_mark)
  check "$name: exit status 0" "$@" >"$work/$name.out" 2>&1 || true
  tail -1 "$work/$name.out" | grep -E '^(ok|WRONG)' || tail -3 "$work/$name.out"
  log_since "$mark" >"$work/$name.log"
  log_ok <"$work/$name.log" | sort -u >"$work/$name.urls"
}
# right NAME SET: every page of the set, each URL once, one worker a host.
right() {
  check "$1: the walker's pages" same_set "$2" "$work/$1.urls"
  polite "$1"
}
# limited NAME: all links of the seeds and no page beyond depth 3; pages at the limit differ between crawls.
limited() {
  sort -u "$work/$1.urls" "$work/walk3.urls" >"$work/$1.above"
  sort -u "$work/$1.urls" "$work/walk1.urls" >"$work/$1.below"
  check "$1: no page beyond the limit" same_set "$work/walk3.urls" "$work/$1.above"
  check "$1: all links of the seeds" same_set "$work/$1.below" "$work/$1.urls"
  polite "$1"
}
polite() {
  check "$1: every URL once" once <"$work/$1.log"
  check "$1: one worker a host at a time" one_worker <"$work/$1.log"
}

crawled one apoidea run "${hosts[@]}" --until-idle --data-dir "$work/one" "${peer[@]}"
right one "$work/walk.urls"
crawled eight apoidea cluster up -n 8 --dir "$work/eight" "${hosts[@]}" --until-idle "${peer[@]}"
right eight "$work/walk.urls"
echo "      pages by worker: $(awk '{ print $1 }' "$work/eight.log" | sort | uniq -c | awk '{ printf "%s %s  ", $2, $1 }')"
crawled one-depth3 apoidea run "${hosts[@]}" --until-idle --max-depth 3 --data-dir "$work/one3" "${peer[@]}"
limited one-depth3
crawled eight-depth3 apoidea cluster up -n 8 --dir "$work/eight3" "${hosts[@]}" --until-idle --max-depth 3 "${peer[@]}"
limited eight-depth3

# What the ring says of itself, against the server's log.
apoidea cluster up -n 8 --dir "$work/told" "${peer[@]}" >"$work/told.out" 2>&1 || { tail -3 "$work/told.out"; failed=1; }
at_end "apoidea cluster down --dir '$work/told' >/dev/null 2>&1"
crawled told apoidea crawl "${hosts[@]}" --wait --data-dir "$work/told/peer1" --quiet
right told "$work/walk.urls"
apoidea status --ring --json --data-dir "$work/told/peer1" >"$work/told.json"
agrees() {
  jq -e --argjson n "$(wc -l <"$work/told.urls")" '.pages + .duplicates + .noindex == $n and .urls_pending == 0 and .urls_leased == 0' "$work/told.json" >/dev/null
}
check "status --ring agrees with the log: $(jq -c '{pages, duplicates, urls_pending, members: .ring.members}' "$work/told.json")" agrees
apoidea cluster down --dir "$work/told" >/dev/null 2>&1 || failed=1

# The mirror: the same bodies under another name.
walker --digests "$(site a)" "$(site m)" 2>/dev/null >"$work/mirror.walk"
cut -f1 "$work/mirror.walk" >"$work/mirror.set"
distinct=$(cut -f2 "$work/mirror.walk" | sort -u | wc -l)
crawled mirror apoidea cluster up -n 8 --dir "$work/mirror" "$(site a)" "$(site m)" --until-idle "${peer[@]}"
right mirror "$work/mirror.set"
find "$work/mirror" -name '*.cdxj' -exec cat {} + 2>/dev/null | sed 's/^[^{]*//' | jq -r 'select((.status | tostring) == "200") | "\(.mime == "warc/revisit") \(.digest)"' >"$work/mirror.cdx" || true
stored=$(grep -c '^false' "$work/mirror.cdx" || true) revisits=$(grep -c '^true' "$work/mirror.cdx" || true)
check "mirror: each of $distinct bodies stored once (stored $stored, revisits $revisits)" \
  test "$stored" = "$distinct" -a "$((stored + revisits))" = "$(wc -l <"$work/mirror.set")"
crawled drop apoidea cluster up -n 8 --dir "$work/drop" "$(site a)" "$(site m)" --until-idle --duplicates drop "${peer[@]}"
fewer=$(cut -d/ -f3 "$work/drop.urls" | sort | uniq -c | sort -n | awk 'NR == 1 { print $1 }')
check "drop: the mirror is not expanded ($fewer pages of one name, $(wc -l <"$work/drop.urls") in all)" test "$fewer" -le 3
exit $failed
