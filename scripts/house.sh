#!/usr/bin/env bash
# Prints the size of each package that the program links, and draws the import diagram, docs/architecture.svg. The size is in lines, without tests and generated code.
#
#   scripts/house.sh
#   scripts/house.sh --check    fails if the diagram is stale, an import points to a higher layer or forms a cycle, ARCHITECTURE.md
#                               names a path or function that does not exist, a comment has over 100 columns, or the product has more
#                               lines than scripts/size-budget, or at least 200 fewer: the budget is lowered after removals, never raised
set -euo pipefail
cd "$(dirname "$0")/.."
go run ./scripts/house "$@"

files=$(go list -deps ./cmd/apoidea | sed -n "s|^$(go list -m)/\(.*\)|:(glob)\1/*.go|p" | xargs git ls-files -co --exclude-standard |
  grep -v '_test\.go$' | grep -vxFf <(git ls-files -d) | xargs grep -L '^// Code generated')
lines=$(xargs cat <<<"$files" | wc -l)
if [ "${1:-}" != --check ]; then
  echo "product: $lines lines in $(wc -l <<<"$files") files"
  xargs wc -l <<<"$files" | awk '$2 != "total" { sub(/\/[^\/]*$/, "", $2); n[$2] += $1; files[$2]++ } END { for (p in n) printf "%6d %4d  %s\n", n[p], files[p], p }' | sort -rn
  exit
fi

wrong=0
complain() { echo "house: $*" >&2; wrong=1; }
budget=$(cat scripts/size-budget)
[ "$lines" -le "$budget" ] || complain "the product has $lines lines, $((lines - budget)) more than the budget in scripts/size-budget"
[ "$lines" -gt $((budget - 200)) ] || complain "the product has $lines lines: lower the budget in scripts/size-budget"
while read -r path; do
  [ -e "$path" ] || complain "ARCHITECTURE.md: no $path"
done < <(grep -oE '`(cmd|crawl|dht|dedup|node|storage)/[a-z0-9/_.]+`' ARCHITECTURE.md | tr -d '`')
while read -r file name; do
  grep -qsE "^func (\([^)]*\) )?$name\>" "$file" || complain "ARCHITECTURE.md: no function $name in $file"
done < <(grep -oE '`[a-z0-9/_]+\.go` `\w+`' ARCHITECTURE.md | tr -d '`')
wide=$(git ls-files -co --exclude-standard '*.go' ':!*.pb.go' | LC_ALL=C.UTF-8 xargs grep -sHnE '^.{101}' | grep -E $'^[^:]*:[0-9]+:\t*// ' | cut -d: -f1,2 || true)
[ -z "$wide" ] || complain "comments of over 100 columns:"$'\n'"$wide"
exit $wrong
