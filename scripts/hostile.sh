#!/usr/bin/env bash
# Tests real peers against hostile and unusual sites: a server of traps on loopback, in families
# (scripts/hostile/trap_*.go), and an audit of what the server saw. What a single response can do
# wrong is tested with the packages of crawl/. One line a trial: requests, requests against
# robots.txt, memory, goroutines and descriptors at most, afterwards and (before), lines of log, the
# slowest answer of the control API beyond what a busy machine takes (the answer of a peer with
# nothing to do, waiting for a processor), how long Ctrl-C took; ok or WRONG, with each violation.
# Exit status 1 if any is WRONG.
#
#   scripts/hostile.sh [--quick] [--json] [--seed N] [--log-level LEVEL] [--flags "FLAGS OF THE PEERS"] [FAMILY | together | ring | interrupt]...
#   scripts/hostile.sh --serve          only the server, for a peer by hand; prints its seeds and the flags
#
# --quick is the quick families before one peer at once, under 90 s. Without names: each family before a peer of its own, a peer of each family interrupted at a
# moment that --seed decides, all families before one peer and before a ring of four; then all archives are read by two tools that are not ours.
# KEEP=1 keeps the peers' directories with their logs. HOSTILE_PORT is the first of three ports of the server.
. "$(dirname "$0")/lib.sh"

status=0
trial hostile --port "${HOSTILE_PORT:-18800}" "$@" || status=$?

# Two readers of archives take a minute or two to install and run; the quick trial leaves them out.
case " $* " in
  *' --quick '* | *' --serve '* | *' --help '*) exit "$status" ;;
esac
archives=()
for dir in "$work"/*/archive; do
  if [ -n "$(find "$dir" -name '*.warc*' -size +0 -print -quit 2>/dev/null)" ]; then archives+=("$dir"); fi
done
if [ ${#archives[@]} -gt 0 ]; then
  if read=$("$root/scripts/warc-check.sh" "${archives[@]}"); then say "ok    archives: ${read//$'\n'/; }"; else say "WRONG archives: ${read//$'\n'/; }"; status=1; fi
fi
exit "$status"
