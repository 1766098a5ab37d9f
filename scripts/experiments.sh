#!/usr/bin/env bash
# Runs every experiment and writes docs/experiments.md: the papers' results beside ours, with charts in docs/img.
#
#   scripts/experiments.sh [-o DIR] [--data DIR] [--again NAME|all]... [--without NAME]... [--only NAME]... [--quick] [--to FILE]
#
# Each experiment runs on an internet made from seed 1. Those named in $measured also run on every matrix in the data directory's rtt/ (default
# ../shared/data; X.csv.gz with its addresses X-prefixes.csv.gz and the registries' ranges, where present), freshness also on its changes/. Runs that DIR (default bin/experiments)
# already holds are reused, so an interrupted script can continue; --again repeats those of an experiment. An experiment without a run in DIR keeps
# its section of the document. The first two tables are kept unless DIR has all runs that they need.
# --to writes the document to FILE instead of docs/experiments.md; --quick writes it to DIR/experiments.md. FILE with .json in place of .md has all
# figures for scripts/artifact.sh: internet and experiment, row, metric, then the figure, or its median, 5th and 95th percentile.
# The notes are the experiments' own (`apoidea experiment list --json`), so do not edit the document by hand. Needs jq.
. "$(dirname "$0")/lib.sh"

out='' data=$root/../shared/data doc='' again=() without=() only=() quick=()
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=${2:?-o needs a directory}; shift ;;
    --data) data=${2:?--data needs a directory}; shift ;;
    --again) again+=("${2:?--again needs a name}"); shift ;;
    --without) without+=("${2:?--without needs a name}"); shift ;;
    --only) only+=("${2:?--only needs a name}"); shift ;;
    --quick) quick=(--quick) ;;
    --to) doc=${2:?--to needs a file}; shift ;;
    *) say "unknown argument $1; see the head of this file"; exit 2 ;;
  esac
  shift
done
out=${out:-$root/bin/experiments${quick[0]:-}}
need jq jq
build_apoidea
commit=$(git -C "$root" describe --always --abbrev=40 --exclude='*' --dirty 2>/dev/null || echo unknown)
[ -z "${APOIDEA:-}" ] || commit=unknown
(cd "$root" && go build -o "$work/freshness" ./scripts/freshness) # repeats no paper: not part of the program
{ apoidea experiment list --json; "$work/freshness" -list; } | jq -s '.[0] + .[1:]' >"$work/list.json"
mapfile -t names < <(jq -r '.[].name' "$work/list.json")

# measured names the experiments that depend most on positions of hosts.
measured=" placement placement-today ipmicra-probes ipmicra-download ipmicra-load coordinates-strategies coordinates-overhead "
[ -n "$doc" ] || { doc=$root/docs/experiments.md; [ ${#quick[@]} = 0 ] || doc=$out/experiments.md; }
images=$(dirname "$doc")/img figures=${doc%.md}.json

listed() { # listed WORD LIST...
  local word=$1 other
  shift
  for other in "$@"; do [ "$other" != "$word" ] || return 0; done
  return 1
}

# inputs prints a line per internet: its name and flags.
inputs() {
  local matrix name ranges
  echo "synthetic"
  for matrix in "$data"/rtt/*.csv.gz; do
    name=$(basename "$matrix" .csv.gz)
    case $name in '*' | *-prefixes) continue ;; esac
    printf '%s --rtt %s' "$name" "$matrix"
    if [ -f "$data/rtt/$name-prefixes.csv.gz" ]; then
      printf ' --prefixes %s' "$data/rtt/$name-prefixes.csv.gz"
      for ranges in "$data"/rir/ip-hierarchy*.csv.gz; do
        [ ! -f "$ranges" ] || { printf ' --hierarchy %s' "$ranges"; break; }
      done
    fi
    echo
  done
  [ ! -d "$data/changes" ] || echo "changes --traces $data/changes"
}

# reads NAME INPUT reports whether an experiment runs on an input.
reads() {
  case $2 in
    synthetic) ;;
    changes) [ "$1" = freshness ] ;;
    *) [[ $measured = *" $1 "* ]] ;;
  esac
}

# run_all makes the runs that DIR lacks.
run_all() {
  local name input dir
  local -a flags
  for name in "${names[@]}"; do
    if listed "$name" "${without[@]}" || { [ ${#only[@]} -gt 0 ] && ! listed "$name" "${only[@]}"; }; then continue; fi
    while read -r -a flags; do
      input=${flags[0]} dir=$out/${flags[0]}/$name
      reads "$name" "$input" || continue
      if [ -f "$dir/run.json" ] && ! listed "$name" "${again[@]}" && ! listed all "${again[@]}"; then continue; fi
      say "$name on $input"
      if [ "$name" = freshness ]; then
        "$work/freshness" -o "$dir" "${flags[@]:1}" "${quick[@]}" >/dev/null
      else
        apoidea experiment run "$name" -o "$dir" --quiet "${flags[@]:1}" "${quick[@]}"
      fi
      # A build with -buildvcs=false does not record its commit.
      jq --arg commit "$commit" 'if .commit == "unknown" then .commit = $commit else . end' "$dir/run.json" >"$work/run.json"
      mv "$work/run.json" "$dir/run.json"
    done <"$work/inputs"
  done
}

# old NAME prints a part of the present document.
old() {
  [ ! -f "$doc" ] || awk -v name="$1" '$0 == "<!-- " name " -->" { on = 1 } on { print } $0 == "<!-- end of " name " -->" { on = 0 }' "$doc"
}

# section NAME prints its part of the document from its runs, or the old part.
section() {
  local name=$1 svg from=$out/synthetic/$1
  if [ ! -f "$from/run.json" ] || listed "$name" "${without[@]}"; then
    old "$name"
    return
  fi
  [ ! -f "$out/changes/$name/run.json" ] || from=$out/changes/$name
  runs_of "$name" | jq -s -r --arg name "$name" --slurpfile list "$work/list.json" -f "$root/scripts/experiments.jq"
  rm -f "$images/$name--"*.svg
  for svg in $(jq -r '[.files[] | select(endswith(".svg"))][:4][]' "$from/run.json"); do
    cp "$from/$svg" "$images/$name--$svg"
    printf '\n![%s: %s](img/%s--%s)\n' "$name" "${svg%.svg}" "$name" "$svg"
  done
  printf '\n<!-- end of %s -->\n' "$name"
}

# summary PART NAME... prints the table PART of experiments-goals.jq from the runs of these experiments, or the old table if a run is missing.
summary() {
  local part=$1 name
  shift
  for name in "$@"; do
    if [ ! -f "$out/synthetic/$name/run.json" ] && [ -f "$doc" ]; then
      old "$part"
      return
    fi
  done
  echo "<!-- $part -->"
  for name in "$@"; do runs_of "$name"; done | jq -s -r --arg part "$part" -f "$root/scripts/experiments-goals.jq"
  echo "<!-- end of $part -->"
}

# opening prints the first page; its input is the rest of the document.
opening() {
  cat <<'TEXT'
# Experiments: results of the papers beside ours

Each experiment repeats a published experiment, or compares our methods with the papers', in virtual time and from a seed.
`scripts/experiments.sh` writes this page; the notes are also printed by `apoidea help experiments`.

## Main results

Our figures are of the paper's method in three worlds. *synthetic* is an internet made from the seed (`node/lab/internet`). *aws-21* and
*planetlab-490* are measured matrices of round trips. aws-21 has the announced address ranges of each region within the registries' ranges;
planetlab-490 has no addresses. The last column compares each world with the paper, one word if all agree; *same* is within 10 %.

TEXT
  summary main apoidea-proximity apoidea-threads ipmicra-probes ipmicra-download ipmicra-load coordinates-strategies coordinates-overhead coordinates-adapt bandwidth
  cat <<'TEXT'

The section of each experiment gives the reasons for differences; [papers.md](papers.md) has them by figure.

![IPMicra: share of sites at a nearest crawler by probes per site, here and in the paper](img/ipmicra-probes--thresholds.svg)

## Run an experiment

    apoidea experiment list
    apoidea experiment run apoidea-proximity -o ~/apoidea/proximity

A run of more than 20 seconds first prints the expected time on two cores with default options: at most two minutes. `--quick` makes a smaller run
of at most 25 seconds (ipmicra-load: 90). `--brief` prints ten lines at most: the papers' figures beside ours, each with a verdict. `run.json` has the
options, version, commit ("unknown" if the build has none), command line, machine, wall and CPU time. `scripts/artifact.sh` repeats all runs and
compares them with this page (see [researcher.md](researcher.md#experiments)).

## All tables

"-" in column *paper* means that the paper has no number, only a plot or nothing. Where an experiment is drawn several times, a figure is the median of
the draws, with the 5th and 95th percentile in parentheses. [experiments.json](experiments.json) has these of all figures.

TEXT
  echo "- [targets](#targets): figures to reach, ours and the papers'"
  sed -n '/^### /{s/^### //;N;N;s/\(.*\)\n\n\(.*\)\.$/- [\1](#\1): \2/p}'
  printf '\n### targets\n\n'
  summary goals ipmicra-probes placement coordinates-strategies coordinates-overhead coordinates-adapt
}

# runs_of NAME prints its runs in DIR, one JSON document each.
runs_of() {
  local input rest
  # shellcheck disable=SC2034 # rest are flags
  while read -r input rest; do
    [ ! -f "$out/$input/$1/run.json" ] ||
      jq -n --arg input "$input" --arg name "$1" --slurpfile run "$out/$input/$1/run.json" --slurpfile table "$out/$input/$1/table.json" \
        '{input: $input, name: $name, run: $run[0], table: $table[0]}'
  done <"$work/inputs"
}

inputs >"$work/inputs"
mkdir -p "$out" "$images"
run_all
for name in "${names[@]}"; do
  section "$name" >"$work/section"
  [ ! -s "$work/section" ] || { echo; cat "$work/section"; }
done >"$work/sections"
{ opening <"$work/sections"; cat "$work/sections"; } >"$work/experiments.md"
mv "$work/experiments.md" "$doc"

# An experiment without a run in DIR keeps its figures. One line each, so that changes can be read.
[ -f "$figures" ] || echo '{}' >"$figures"
for name in "${names[@]}"; do runs_of "$name"; done | jq -n -r --slurpfile old "$figures" '
  reduce inputs as $run ($old[0]; .[$run.input + "/" + $run.name] = (reduce $run.table[] as $r ({};
    .[$r.row][$r.metric] = if $r.low == null and $r.high == null then $r.here else [$r.here, $r.low, $r.high] end)))
  | "{\n" + ([to_entries[] | (.key | tojson) + ":" + (.value | tojson)] | join(",\n")) + "\n}"' >"$work/figures.json"
mv "$work/figures.json" "$figures"
say "written: $doc, $figures"
