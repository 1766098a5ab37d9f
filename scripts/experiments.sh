#!/usr/bin/env bash
# Runs every experiment and writes docs/experiments.md: the papers' tables beside ours, with charts in docs/img.
#
#   scripts/experiments.sh [-o DIR] [--data DIR] [--again NAME|all]... [--without NAME]... [--only NAME]... [--quick]
#
# Each experiment runs on an internet made from seed 1; those named in $measured also on every matrix in the data directory's rtt/ (default
# ../shared/data; X.csv.gz with its addresses X-prefixes.csv.gz and the registries' ranges, where these are there). A run that DIR (default bin/experiments)
# already holds is not made again, so an interrupted script goes on where it was, unless --again names its experiment. An
# experiment without a run in DIR keeps its old section of the document: --without churn leaves out the one that takes long.
# So does the table of figures to reach unless DIR has all that it is made of. With --quick the document is DIR/experiments.md, since small runs prove little.
# The notes are the experiments' own (`apoidea experiment list --json`), so nothing is to be written into the document by hand. Needs jq.
. "$(dirname "$0")/lib.sh"

out='' data=$root/../shared/data again=() without=() only=() quick=()
while [ $# -gt 0 ]; do
  case $1 in
    -o) out=${2:?-o needs a directory}; shift ;;
    --data) data=${2:?--data needs a directory}; shift ;;
    --again) again+=("${2:?--again needs a name}"); shift ;;
    --without) without+=("${2:?--without needs a name}"); shift ;;
    --only) only+=("${2:?--only needs a name}"); shift ;;
    --quick) quick=(--quick) ;;
    *) say "unknown argument $1; see the head of this file"; exit 2 ;;
  esac
  shift
done
out=${out:-$root/bin/experiments${quick[0]:-}}
need jq jq
build_apoidea
apoidea experiment list --json >"$work/list.json"
mapfile -t names < <(jq -r '.[].name' "$work/list.json")

# measured are the experiments in which it matters most where hosts are.
measured=" placement placement-today ipmicra-probes ipmicra-download ipmicra-load coordinates-strategies coordinates-overhead "
doc=$root/docs/experiments.md images=$root/docs/img
[ ${#quick[@]} = 0 ] || doc=$out/experiments.md images=$out/img

listed() { # listed WORD LIST...
  local word=$1 other
  shift
  for other in "$@"; do [ "$other" != "$word" ] || return 0; done
  return 1
}

# inputs: a line for each internet: its name, and the flags that say where it is.
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
}

# run_all: what DIR lacks.
run_all() {
  TIMEFORMAT=%U # what time prints: processor time, since the machine may have other work
  local name input dir
  local -a flags
  for name in "${names[@]}"; do
    if listed "$name" "${without[@]}" || { [ ${#only[@]} -gt 0 ] && ! listed "$name" "${only[@]}"; }; then continue; fi
    while read -r -a flags; do
      input=${flags[0]} dir=$out/${flags[0]}/$name
      [ "$input" = synthetic ] || [[ $measured = *" $name "* ]] || continue
      if [ -f "$dir/run.json" ] && ! listed "$name" "${again[@]}" && ! listed all "${again[@]}"; then continue; fi
      say "$name on $input"
      { time apoidea experiment run "$name" -o "$dir" --quiet "${flags[@]:1}" "${quick[@]}" 2>&3; } 3>&2 2>"$work/seconds"
      mv "$work/seconds" "$dir/cpu_seconds"
    done <"$work/inputs"
  done
}

# old NAME: a part of the document as it is.
old() {
  [ ! -f "$doc" ] || awk -v name="$1" '$0 == "<!-- " name " -->" { on = 1 } on { print } $0 == "<!-- end of " name " -->" { on = 0 }' "$doc"
}

# section NAME: its part of the document, out of its runs, or as it was.
section() {
  local name=$1 svg
  if [ ! -f "$out/synthetic/$name/run.json" ] || listed "$name" "${without[@]}"; then
    old "$name"
    return
  fi
  runs_of "$name" | jq -s -r --arg name "$name" --slurpfile list "$work/list.json" -f "$root/scripts/experiments.jq"
  rm -f "$images/$name--"*.svg
  for svg in $(jq -r '[.files[] | select(endswith(".svg"))][:4][]' "$out/synthetic/$name/run.json"); do # the first ones say most
    cp "$out/synthetic/$name/$svg" "$images/$name--$svg"
    printf '\n![%s: %s](img/%s--%s)\n' "$name" "${svg%.svg}" "$name" "$svg"
  done
  printf '\n<!-- end of %s -->\n' "$name"
}

# goals: the figures that were to be reached.
aimed=(ipmicra-probes placement coordinates-strategies coordinates-overhead coordinates-adapt)
goals() {
  local name
  for name in "${aimed[@]}"; do
    if [ ! -f "$out/synthetic/$name/run.json" ] && [ -f "$doc" ]; then
      old goals
      return
    fi
  done
  printf '<!-- goals -->\n## Figures to reach\n\n'
  for name in "${aimed[@]}"; do runs_of "$name"; done | jq -s -r -f "$root/scripts/experiments-goals.jq"
  echo '<!-- end of goals -->'
}

# opening: what the document is.
opening() {
  cat <<'TEXT'
# Experiments: the papers' tables beside ours

Written by `scripts/experiments.sh` from what the experiments found; the notes are the experiments' own (`apoidea help experiments`). Everything is in virtual
time and from a seed: the same seed gives the same tables. "Paper" is what a paper says in figures; where it only has a plot there is none. *synthetic* is an
internet made from the seed (`node/lab/internet`), the other columns are measured matrices of round trips: *planetlab-490* without addresses, *aws-21* with the address ranges that
the cloud announces for each region, and the registries' ranges around them.

A run first prints the expected time on two cores with default options: at most two minutes, twenty for churn. `--quick` makes a smaller run of at most 25 seconds (ipmicra-load: 90),
and `--brief` prints the table alone, a long one with the first three figures of each row and the paper's. `run.json` has the options, the version, the commit ("unknown" if the build
has none), the command line and the machine.

TEXT
  goals
}

# runs_of NAME: its runs in DIR, one JSON document each.
runs_of() {
  local input rest
  # shellcheck disable=SC2034 # rest are flags
  while read -r input rest; do
    [ ! -f "$out/$input/$1/run.json" ] ||
      jq -n --arg input "$input" --arg name "$1" --slurpfile run "$out/$input/$1/run.json" --slurpfile table "$out/$input/$1/table.json" \
        --argjson cpu "$(cat "$out/$input/$1/cpu_seconds" 2>/dev/null || echo null)" '{input: $input, name: $name, run: $run[0], table: $table[0], cpu: $cpu}'
  done <"$work/inputs"
}

inputs >"$work/inputs"
mkdir -p "$out" "$images"
run_all
{
  opening
  for name in "${names[@]}"; do
    section "$name" >"$work/section"
    [ ! -s "$work/section" ] || { echo; cat "$work/section"; }
  done
} >"$work/experiments.md"
mv "$work/experiments.md" "$doc"
say "written: $doc"
