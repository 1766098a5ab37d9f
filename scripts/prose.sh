#!/usr/bin/env bash
# Checks the language of README.md, the other documents and the help of all commands (docs/cli.md) with
# Vale, by the style in scripts/prose, and the length of the documents that have a budget.
#
#   scripts/prose.sh [FILE.md]...
set -euo pipefail
cd "$(dirname "$0")/.."

# Lines and words at most.
budgets='README.md 110 900
ARCHITECTURE.md 200 4000
CONTRIBUTING.md 80 2000
SECURITY.md 120 2500
CHANGELOG.md 200 3000'

failed=0
while read -r file lines words; do
  read -r l w < <(wc -lw <"$file")
  [ "$l" -le "$lines" ] && [ "$w" -le "$words" ] || { echo "$file has $l lines and $w words; its budget is $lines and $words"; failed=1; }
done <<<"$budgets"
for file in docs/*.md; do
  case $file in docs/bounds.md | docs/cli.md | docs/experiments.md) continue ;; esac # generated
  [ "$(wc -l <"$file")" -le 200 ] || { echo "$file has over 200 lines"; failed=1; }
done

# Vale is built once for each version that scripts/prose/go.mod names; it needs a C compiler.
bin=${XDG_CACHE_HOME:-$HOME/.cache}/apoidea/vale-$(cksum <scripts/prose/go.sum | cut -d' ' -f1)
if [ ! -x "$bin" ]; then
  echo "building Vale"
  CGO_ENABLED=1 go -C scripts/prose build -trimpath -ldflags '-s -w' -o "$bin" github.com/errata-ai/vale/v3/cmd/vale || {
    echo "Vale is not available: the language is not checked"
    [ "${APOIDEA_INSTALL:-}" != 1 ] && exit $failed
    exit 1
  } 2>/dev/null
fi
files=("$@")
[ $# != 0 ] || mapfile -t files < <(git ls-files '*.md')
"$bin" --config scripts/prose/vale.ini --output line "${files[@]}" || failed=1
exit $failed
