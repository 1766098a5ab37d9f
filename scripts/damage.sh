#!/usr/bin/env bash
# Damage to the data directory of a peer: files of every kind overwritten, cut and deleted, one way a trial, in copies of a crawl of a synthetic web. One line a
# trial: what check and repair said, requests of the same command again, how many the damaged bytes made necessary at most, pages lost; ok or WRONG, with what was
# wrong. Exit status 1 if any is WRONG.
#
#   scripts/damage.sh [--quick] [--seed N] [--seeds N] [TRIAL]...
#
# --quick is one trial of each kind of file and two at random places, under two minutes; all of it takes some minutes. KEEP=1 keeps the directories; those of trials
# that went wrong are not removed before. DAMAGE_PORT is the web server's port.
. "$(dirname "$0")/lib.sh"

trial damage --port "${DAMAGE_PORT:-18890}" "$@"
