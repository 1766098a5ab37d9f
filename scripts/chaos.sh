#!/usr/bin/env bash
# Harm done to a ring of real processes while it crawls a real web server: peers killed, stopped, parted, asked to leave, joining. One line a
# trial: what was done, pages lost, pages fetched again, requests of two workers at once, smallest gap when the worker changed, how long hosts
# went without a worker; ok or WRONG, with what broke its bound. Exit status 1 if any is WRONG.
#
#   scripts/chaos.sh [--quick] [--seed N] [--seeds N] [--log-level LEVEL] [SCENARIO]...      --help lists the scenarios
#
# --quick is a subset in small, under four minutes on two cores. Without names all scenarios run, each with its number of seeds.
# A trial takes up to a gigabyte of disk, which is given back if it was ok. KEEP=1 keeps all of it, with the peers' logs. CHAOS_PORT is the web server's port.
. "$(dirname "$0")/lib.sh"

trial chaos --port "${CHAOS_PORT:-18790}" "$@"
