#!/usr/bin/env bash
# The figures of the house: how long its packages and functions are, what is documented, what is dead or said twice, and which package imports which.
# Draws docs/house.svg.
#
#   scripts/house.sh [--json] [--fast]       --fast leaves out the dead code, which takes half a minute to find
#   scripts/house.sh --undocumented          lists the exported names and fields that have no comment
#   scripts/house.sh --check                 fails when the picture is stale, an import runs up a floor or in a circle,
#                                            a walk in ARCHITECTURE.md names a function that is not there, or a comment has over 100 columns
set -euo pipefail
cd "$(dirname "$0")/.."
exec go run ./scripts/house "$@"
