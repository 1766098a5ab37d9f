#!/usr/bin/env bash
# How long the packages of the house are, and which imports which. Draws docs/house.svg.
#
#   scripts/house.sh
#   scripts/house.sh --check    fails when the picture is stale, an import runs up a floor or in a circle,
#                               a walk in ARCHITECTURE.md names a function that is not there, or a comment has over 100 columns
set -euo pipefail
cd "$(dirname "$0")/.."
wide=$(git ls-files -co --exclude-standard '*.go' ':!*.pb.go' | LC_ALL=C.UTF-8 xargs grep -sHnE '^.{101}' | grep -E $'^[^:]*:[0-9]+:\t*// ' | cut -d: -f1,2 || true)
[ -z "$wide" ] || echo "comments of over 100 columns:"$'\n'"$wide" >&2
go run ./scripts/house "$@" && { [ -z "$wide" ] || [[ " $* " != *" --check "* ]]; }
