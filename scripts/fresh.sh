#!/usr/bin/env bash
# Pages that change by a file of changes, fetched again by real peers, judged by the server's log: `web serve --changes`, whose ETags lie for
# 10 % of the pages, with a day of the schedule in 20 s. One line a check: ok or WRONG; figures without a bound have a dash. Exit status 1 if any
# is WRONG.
#
#   scripts/fresh.sh [--seconds N] [--seed N] [--changes FILE --day 1s --every 28] [CASE]...      --help lists cases and flags
#
# Without --changes the ring's pages have changes that are drawn from the seed. KEEP=1 keeps the log of requests and the peers' directories.
# FRESH_PORT is the web server's port.
. "$(dirname "$0")/lib.sh"

trial fresh --port "${FRESH_PORT:-18830}" "$@"
