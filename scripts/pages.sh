#!/usr/bin/env bash
# Manual pages and completions, made by the program itself: DIR/man/*.1 and DIR/completions/apoidea.{bash,zsh,fish,ps1}.
#
#   scripts/pages.sh DIR
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1/man" "$1/completions"
out=$(cd "$1" && pwd)
bin=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
trap 'rm -rf "$bin"' EXIT
(cd "$root" && CGO_ENABLED=0 GOOS='' GOARCH='' go build -trimpath -o "$bin/apoidea" ./cmd/apoidea)
"$bin/apoidea" man "$out/man"
for shell in bash:bash zsh:zsh fish:fish powershell:ps1; do
  "$bin/apoidea" completion "${shell%%:*}" >"$out/completions/apoidea.${shell##*:}"
done
echo "$(find "$out/man" -name '*.1' | wc -l) manual pages and $(find "$out/completions" -type f | wc -l) completions in $out"
