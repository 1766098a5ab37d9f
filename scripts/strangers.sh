#!/usr/bin/env bash
# Attacks on a ring of three real peers, by identities that are seconds old and belong to nothing, while it crawls a small web on loopback. One line an attack: the
# largest heap of the peer that is attacked, calls of an honest peer to it, how long a fresh peer took to join through it; ok or WRONG, by what the same ring did at
# rest. In the end the crawl has to be whole. Exit status 1 if anything is WRONG.
#
#   scripts/strangers.sh [--quick] [--log-level LEVEL] [ATTACK]...      --help lists the attacks
#
# --quick makes the quick attacks for a moment each, under a minute in all. KEEP=1 keeps the peers' directories with their logs. STRANGERS_PORT is the web server's.
. "$(dirname "$0")/lib.sh"

trial strangers --port "${STRANGERS_PORT:-18820}" "$@"
