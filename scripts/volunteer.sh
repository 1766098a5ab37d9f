#!/usr/bin/env bash
# A peer as a volunteer runs it, against a web on loopback: caps and pauses are changed while it crawls, and a ring of peers has nothing to do. Prints one
# line a figure with its goal, as measured from the server's side and by the kernel; exit status 1 if one is missed. About five minutes.
#
#   scripts/volunteer.sh [--only caps|idle] [--ring N] [--span 30s]
#
# KEEP=1 keeps the peers' directories with their logs.
. "$(dirname "$0")/lib.sh"

need ss iproute2
trial volunteer "$@"
