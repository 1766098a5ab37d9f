#!/usr/bin/env bash
# Repeats all experiments, compares each figure with the committed one, and writes one HTML page with tables, verdicts, charts, machine and times.
#
#   scripts/artifact.sh [-o DIR] [--data DIR] [--quick] [--resume] [--only NAME]... [--accept]
#
# The page is DIR/artifact.html (default bin/artifact); it needs no other file. Takes about 16 minutes on two cores, with --quick some minutes.
# Runs are those of scripts/experiments.sh: seed 1, on the synthetic internet, and on the measured matrices where the data directory (default ../shared/data) is.
# Committed figures are in docs/experiments.json, and of --quick in docs/experiments.quick.json. A figure is inside if it lies between the 5th and the
# 95th percentile of the committed draws, or within 1 % of the committed figure. Exit status 1 if one is outside, new or missing.
# --resume keeps the runs that DIR has. --accept commits to the new figures: it copies them over the committed ones after the comparison.
. "$(dirname "$0")/lib.sh"

out='' data=$root/../shared/data quick=() again=(--again all) only=() accept=''
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=${2:?-o needs a directory}; shift ;;
    --data) data=${2:?--data needs a directory}; shift ;;
    --quick) quick=(--quick) ;;
    --resume) again=() ;;
    --only) only+=(--only "${2:?--only needs a name}"); shift ;;
    --accept) accept=1 ;;
    *) say "unknown argument $1; see the head of this file"; exit 2 ;;
  esac
  shift
done
out=${out:-$root/bin/artifact${quick[0]:-}}
committed=$root/docs/experiments.json
[ ${#quick[@]} = 0 ] || committed=$root/docs/experiments.quick.json
need jq jq
build_apoidea
apoidea experiment list --json >"$work/list.json"

begun=$SECONDS
mkdir -p "$out"
rm -f "$out/experiments.json" # without the figures of an earlier run
"$root/scripts/experiments.sh" -o "$out" --data "$data" --to "$out/experiments.md" "${quick[@]}" "${again[@]}" "${only[@]}"

[ -f "$committed" ] || { say "$committed is missing: all figures count as new"; echo '{}' >"$work/none.json"; }
jq -c '{key: (input_filename | split("/") | .[-3] + "/" + .[-2]), run: .}' "$out"/*/*/run.json >"$work/runs"
jq -c '{key: (input_filename | split("/") | .[-3] + "/" + .[-2]), table: .}' "$out"/*/*/table.json >"$work/tables"
jq -n -r --slurpfile runs "$work/runs" --slurpfile tables "$work/tables" --slurpfile list "$work/list.json" --argjson seconds $((SECONDS - begun)) \
  --slurpfile committed "$([ -f "$committed" ] && echo "$committed" || echo "$work/none.json")" --slurpfile here "$out/experiments.json" \
  -f "$root/scripts/artifact.jq" >"$work/page"

# The template has a line "<!-- svg PATH -->" for each chart.
while IFS= read -r line; do
  case $line in
    '<!-- svg '*) file=${line#<!-- svg }; cat "$out/${file% -->}" ;;
    *) printf '%s\n' "$line" ;;
  esac
done <"$work/page" >"$out/artifact.html"
[ -z "$accept" ] || cp "$out/experiments.json" "$committed"

say "written: $out/artifact.html"
outside=$(sed -n 's/.*data-outside="\([0-9]*\)".*/\1/p' "$out/artifact.html" | head -1)
[ "$outside" = 0 ] || { say "$outside figures differ from the committed ones by more than the stated spread"; exit 1; }
