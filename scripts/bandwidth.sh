#!/usr/bin/env bash
# A real peer under a limit of 250 kB/s, against 40 web servers of different speeds on loopback, once with each governor. Prints what the kernels of the servers counted:
# the mean over the limit, the fullest second, the share of one-second windows (of any phase) above 1.02 of it; and from the peer the share of fetches that passed a higher
# score. What a kernel has taken in counts as arrived, whether it was read or not. Exit status 1 if ours misses 0.95 of the limit or has a window above. About three minutes.
#
#   scripts/bandwidth.sh [--governors ours,paper,start-stop,none] [--span 30s]
. "$(dirname "$0")/lib.sh"

trial volunteer --only governors "$@"
