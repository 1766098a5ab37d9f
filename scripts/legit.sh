#!/usr/bin/env bash
# Real sites before real peers, of the kinds that are taken for endless ones
# (crawl/trap/traptest): each is a host on loopback, and a crawl with the defaults of its
# profile, but for how fast a host may be asked, must fetch every page that has content of its own,
# by what the server saw. One line a site and crawl: profile, peers, own pages that were fetched,
# requests, those beside the first for each own page, seconds of the crawl, and how many URLs the
# crawl says that it left as a trap; ok or WRONG, then with some of what is missing. Exit status 1
# if any is WRONG.
#
#   scripts/legit.sh [--quick] [--json] [--peers N] [--profile lab | public] [--scale N]
#                    [--flags "FLAGS OF THE PEERS"] [SITE]...
#
# --quick crawls all sites at once by one peer of the lab profile, under 90 s. Otherwise each site
# is crawled by itself, by a peer of each profile, and all at once by a ring of four. --peers,
# --profile and names of sites choose among that; several peers are of the lab profile. --scale
# divides how many pages sites have (default 10; 1 is full size). KEEP=1 keeps the peers'
# directories with their logs. LEGIT_PORT is the first of three ports of the server.
. "$(dirname "$0")/lib.sh"

trial hostile --legit --port "${LEGIT_PORT:-18810}" "$@"
