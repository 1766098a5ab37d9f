#!/usr/bin/env bash
# Spot checks of workers by real peers: ten peers with --check-rate 2% crawl 5,000 pages, two of them through proxies that forge 10 % of the pages.
# It compares all pages with those of the web server, and reads which workers have lost a check. One line a check: ok or WRONG; figures without a
# bound have a dash. Exit status 1 if any is WRONG. It takes two minutes, ten at most.
#
#   scripts/trust.sh [--honest] [--seed N]
#
# --honest has no liars: no worker may lose a check. KEEP=1 keeps the peers' directories. TRUST_PORT is the web server's port.
. "$(dirname "$0")/lib.sh"

trial trust --port "${TRUST_PORT:-18840}" peers "$@"
