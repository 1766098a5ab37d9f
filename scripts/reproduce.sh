#!/usr/bin/env bash
# Whether a build can be reproduced: the committed state is built in two clones in different directories, the second with an empty cache, and the two
# programs must be the same bytes. Takes the CPU time of a cold build, about two minutes on two cores.
#
#   scripts/reproduce.sh [COMMIT]
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
commit=$(git -C "$root" rev-parse "${1:-HEAD}")
work=$(mktemp -d "${TMPDIR:-/tmp}/apoidea.XXXXXX")
trap 'rm -rf "$work"' EXIT
export CGO_ENABLED=0
unset GOFLAGS

one() { # DIRECTORY: a clone of the commit there, built
  git clone -q "$root" "$1"
  git -C "$1" -c advice.detachedHead=false checkout -q "$commit"
  (cd "$1" && go build -trimpath -ldflags "-s -w" -o apoidea ./cmd/apoidea)
  sha256sum "$1/apoidea" | cut -d' ' -f1
}
a=$(one "$work/a")
b=$(GOCACHE="$work/cache" one "$work/elsewhere/and/deeper/b")
echo "$a"
echo "$b"
if [ "$a" != "$b" ]; then
  echo "the two builds of $commit differ" >&2
  exit 1
fi
echo "the two builds of $commit are the same bytes"
