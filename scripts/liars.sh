#!/usr/bin/env bash
# One lying member in a ring of five real peers that crawls small webs on loopback, once in an open ring and once in a ring by invitation, where the liar is an outsider
# that claims to be a member. One line an attack and ring, with what it came to; ok, WRONG, or known for an attack that docs/threats.md lists as one that succeeds.
# Exit status 1 if anything is WRONG.
#
#   scripts/liars.sh [--quick] [--ring open|invite] [--log-level LEVEL] [ATTACK]...      --help lists the attacks
#
# --quick makes each attack for a moment, in less than three minutes in all; eight without. KEEP=1 keeps the peers' directories with their logs. LIARS_PORT is the
# first of a hundred ports.
. "$(dirname "$0")/lib.sh"

trial strangers --liars --port "${LIARS_PORT:-18900}" "$@"
