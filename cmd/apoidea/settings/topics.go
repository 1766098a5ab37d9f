package settings

const AboutSettings = `Further settings of run and cluster up. Each is a flag, a key of the configuration file (apoidea config init), and a variable such as APOIDEA_REPLICAS.
`

const AboutLimits = `Resource limits of a peer. Each is a flag of run, a key of the configuration file, and can be changed at run time by "limits set":

    bandwidth, bandwidth-up    download and upload limit, crawl and peer traffic together
    quota-day, quota-month     traffic in both directions, by the local calendar
    cpu-share                  CPU time, in percent of one core
    memory, fetchers           soft heap limit; concurrent fetches
    disk-quota, disk-reserve   size of the data directory; free space at which the peer stops
    schedule, outside          working hours of the week; behavior at other hours
    only-when-idle             pause while the machine is in use
    pause-on-battery           pause on battery power
    pause-on-metered           pause on a metered link

Limits per site are flags of run; 0 is unlimited, except for --delay and --max-body. A job has further limits, such as --max-pages (crawl --help).

    --delay                    minimum gap between requests to a host: 1s, or a longer Crawl-delay
    --domain-delay             the same for a registrable domain, ring-wide: 0; at most 1h, equal on all peers
    --ip-permits               requests per minute to an address, ring-wide: 240 (public profile)
    --max-requests-per-host    requests per job and host: 50,000 (public), else 100,000
    --max-bytes-per-host       approximate body bytes per job and host: 2GiB or a tenth of the free disk
    --max-body                 body size: 16MiB; a longer body is truncated
    --trap-rules               of a job: on; endless parts of a site are left (docs/traps.md)
    --page-hosts               new hosts linked from one page: 1,000 (public), else 10,000
    --domain-hosts             hosts of a domain per job: 1,000 (public), else 10,000

docs/bounds.md lists all limits.`

const AboutPlacement = `The owner of a host selects its worker among itself, its leaf set and the workers attached to it. --placement sets the strategy; all peers of a ring should
use the same.

    adaptive     The default, our own: predicts RTTs from earlier fetches and from RTTs between peers, and probes only where the result can change a worthwhile
                 choice: about two probes per site on average, and few for small hosts.
    rtt          The candidates measure the RTT to each site with eight or more URLs; the smallest wins (Apoidea: Singh, Srivatsa, Liu, Miller 2003).
    ipmicra      Assigns whole subnets to peers, along registered IP ranges, with few probes (IPMicra: Papapetrou, Samaras 2004).
    coordinates  Computes network coordinates of peers and servers from gossip and regular downloads, and selects the nearest peer (Malet 2009).
                 Peers fetch the first pages of a host in turns: 24 hosts of 50 pages took 39 s on four peers, and 11 s with adaptive.
    geo          Selects the geographically nearest peer from --geoip, without measurements (the baseline of Malet 2009).
    random       Selects a candidate by a hash of host and peer: a baseline without distance.
    owner        Keeps each host at its owner: a baseline without messages.

With every strategy, an overloaded worker is skipped, and a host is placed again when its fetches take more than twice as long as before.

    --probe             How an RTT is measured: connect is a TCP connect; head is a HEAD request, sent only if robots.txt is known and allows it.
    --geoip             A MaxMind DB of positions or countries, for geo.
    --hierarchy         IP ranges for ipmicra: CSV with columns prefix and org, or a registry's delegated-extended file, may be gzipped. Without it each /24 and /48 is a range. The file is read once, at start.

"apoidea host HOST" shows the measurements; "apoidea experiment run placement -o DIR" compares the strategies.`

const AboutSeeds = `Seed URLs are arguments of run and crawl, or lines of a file, which may have millions.

    apoidea run https://example.org/ --contact https://you.example/crawler
    apoidea crawl --seeds list.txt --max-depth 0 --wait

A peer finds its ring through these flags of run. No public ring is built in.

    --dns-seed NAME      Looks up entry peers in DNS: the TXT records of _dnsaddr.NAME. "apoidea seed serve" serves such a name; "apoidea seed zone" prints the records.
    --bootstrap ADDRESS  Dials an entry peer. "apoidea peers --addrs" there prints its addresses.
    --mdns               Discovers peers of the same --network on the local network, in both directions; in the public profile only at public addresses.

They can be combined. A peer remembers the peers it met and needs no flag after its first run. Without any of them and without a data directory it founds a ring. A peer
that has known others keeps looking for them; with --found it serves alone.

Others must be able to dial an entry peer: --listen all, or all:4001 for a fixed port. The default is loopback, except in the public profile and with --mdns. A port that is
not given is chosen once and kept.

To found a public ring, run the first peer, and two more with its address as their --bootstrap (docs/founder.md).
--admission decides which peers are members and own hosts: open, all reachable ones; invite, those with a certificate ("apoidea ring invite"). Others are workers.

    apoidea run --profile public --contact https://you.example/crawler \
      --listen all:4001 --reachability public --found --admission invite

"apoidea doctor" with the same flags checks whether DNS seeds and entry peers respond.`

const AboutDistances = `--latency FILE emulates RTTs between the peers of a cluster, and between peers and sites. FILE is a square matrix of RTTs in milliseconds: CSV without a header, may be
gzipped, as for --rtt of experiments.

Peer i has row i-1, counted from 0, and listens at 127.0.2.i. Sites have the rows after the peers' (--latency-peers; the number of peers of the first start). A name that
resolves to 127.0.0.1 has row P + FNV-1a(name) mod (rows - P) for P rows of peers, with the name without port. It is reported at address 127.(128+row/256).(row%256).1.
Another loopback address has the row of the hash of its text. This requires all of 127.0.0.0/8, as on Linux and Windows.

The dialing side delays each direction by half an RTT, and a connect by a whole one; servers need no change.

With --placement ipmicra the reported addresses are used: the sites of a row are one subnet, the peers share 127.0.2.0/24, and the distance between rows is unknown
unless --hierarchy nests such ranges. Without --latency all sites are in 127.0.0.0/24, so one peer crawls them all until it is overloaded.

A single peer gets its row from --latency-row and --latency-peers.`
