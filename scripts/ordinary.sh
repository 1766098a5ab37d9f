#!/usr/bin/env bash
# Ordinary sites and the first hour of a user: redirects of seeds, bodies that end early, cookie
# walls, exports, interrupted commands, copied data directories. Each case has a server of raw bytes
# on loopback or real processes, and prints one line: ok or WRONG, its name, what was seen and what
# was expected. A case that needs what this machine does not allow prints skip. Exit status 1 if any
# is WRONG.
#
#   scripts/ordinary.sh [--quick] [--jobs N] [CASE]...      --help lists the cases
#
# --quick leaves out the slow cases and takes under a minute on two cores. --jobs is the number of
# cases at once (default 4). KEEP=1 keeps the files of all cases, with the logs of the peers.
. "$(dirname "$0")/lib.sh"

trial ordinary "$@"
