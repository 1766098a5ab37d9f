#!/usr/bin/env bash
# Prints the size of each package and draws the import diagram, docs/architecture.svg.
#
#   scripts/house.sh
#   scripts/house.sh --check    fails if the diagram is stale, an import points to a higher layer or forms a cycle, ARCHITECTURE.md
#                               names a path or function that does not exist, or a comment has over 100 columns
set -euo pipefail
cd "$(dirname "$0")/.."
wide=$(git ls-files -co --exclude-standard '*.go' ':!*.pb.go' | LC_ALL=C.UTF-8 xargs grep -sHnE '^.{101}' | grep -E $'^[^:]*:[0-9]+:\t*// ' | cut -d: -f1,2 || true)
[ -z "$wide" ] || echo "comments of over 100 columns:"$'\n'"$wide" >&2
go run ./scripts/house "$@" && { [ -z "$wide" ] || [[ " $* " != *" --check "* ]]; }
