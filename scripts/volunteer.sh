#!/usr/bin/env bash
# A peer as a volunteer runs it, against a web on loopback: caps and pauses are changed while it crawls, and a ring of peers has nothing to do. Prints one
# line a figure with its goal, as measured from the server's side and by the kernel; exit status 1 if one is missed. About five minutes.
#
#   scripts/volunteer.sh [--only caps|idle] [--ring N] [--span 30s]
#
# KEEP=1 keeps the peers' directories with their logs.
. "$(dirname "$0")/lib.sh"

need ss iproute2
# shellcheck disable=SC2154 # of lib.sh
if [ -n "${APOIDEA:-}" ]; then cp "$APOIDEA" "$work/bin/apoidea"; else (cd "$root" && go build -o "$work/bin/apoidea" ./cmd/apoidea); fi
(cd "$root/scripts/volunteer" && go build -o "$work/bin/" .)
# shellcheck disable=SC2016 # expanded when the script ends
# What is left behind if the tool is killed itself.
at_end 'for pid in $(cat "$work"/*.pid 2>/dev/null); do grep -qs "$work" "/proc/$pid/cmdline" && kill -9 "$pid"; done'
volunteer --apoidea "$work/bin/apoidea" --work "$work" "$@"
