#!/usr/bin/env bash
# Writes the tables of figures in docs/papers.md, from scripts/papers.json (what each paper has, what is fitted, and why we differ) and docs/experiments.json (our
# figures). Run it after scripts/experiments.sh. Needs jq.
#
#   scripts/papers.sh [--check]     --check fails if the page differs
. "$(dirname "$0")/lib.sh"

need jq jq
page=$root/docs/papers.md
while IFS= read -r line; do
  case $line in
    '<!-- figures of '*)
      name=${line#<!-- figures of } name=${name% -->}
      printf '%s\n' "$line" '| figure | source | paper | ours | fitted | verdict | command | why |' '| --- | --- | --- | --- | --- | --- | --- | --- |'
      jq -r --arg paper "$name" --slurpfile ours "$root/docs/experiments.json" -f "$root/scripts/papers.jq" "$root/scripts/papers.json"
      skipping=1
      ;;
    '<!-- end -->') skipping='' && printf '%s\n' "$line" ;;
    *) [ -n "${skipping:-}" ] || printf '%s\n' "$line" ;;
  esac
done <"$page" >"$work/papers.md"
if [ "${1:-}" = --check ]; then diff -u "$page" "$work/papers.md"; else cp "$work/papers.md" "$page"; fi
