package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/node/lab/experiment"
)

// newTopics are what help tells beside the commands.
func newTopics() []*cobra.Command {
	return []*cobra.Command{
		{Use: "distances", Short: "How far peers and sites are from each other on one machine (--latency)", Long: aboutDistances},
		{Use: "experiments", Short: "What each experiment does, and by which paper", Long: aboutExperiments()},
		{Use: "placement", Short: "Who crawls a host: the strategies of --placement", Long: aboutPlacement},
		{Use: "seeds", Short: "How a peer finds a ring, how one is founded, and where a crawl begins", Long: aboutSeeds},
		{Use: "words", Short: "The words that are used here, each in a sentence or two", Long: aboutWords()},
	}
}

const aboutLimits = `Bounds on what a peer takes of its machine. They are flags of run, keys of the configuration file, and what "limits set" changes while the peer runs:

    bandwidth, bandwidth-up    one cap over sites and peers together: what comes, what goes
    quota-day, quota-month     bytes that come and go, by the local calendar
    cpu-share                  processor time, in percent of one core
    memory, fetchers           Go's heap; exchanges at once
    disk-quota, disk-reserve   what the data directory holds; free space at which the peer stops
    schedule, outside          hours of the week; what holds at other hours
    only-when-idle             pause while somebody uses the machine
    pause-on-battery           pause while there is no power but the battery's
    pause-on-metered           pause while the link is paid by the byte

Bounds on what a site may cost, flags of run; 0 is no bound, except for --delay and --max-body. A job has its own beside them, such as --max-pages (crawl --help).

    --delay                    least gap between requests to a host: 1s, or a longer Crawl-delay
    --domain-delay             the same to all hosts of a registrable domain, of all peers: 0
    --ip-permits               requests a minute to an address, of all peers: 240 (public profile)
    --max-requests-per-host    requests of a job to a host: 50,000 (public), else 100,000
    --max-bytes-per-host       bytes of bodies of a job from a host, about: 2GiB or a tenth of the free disk
    --max-body                 bytes of a body: 16MiB; a longer one is cut
    --novelty                  pages in a row that bring nothing new: 400; the rest is a trap then
    --page-hosts               new hosts by the links of a page: 1,000 (public), else 10,000
    --domain-hosts             hosts of a domain in a job: 1,000 (public), else 10,000

docs/bounds.md has all bounds.`

const aboutPlacement = `The owner of a host chooses who crawls it, among itself, its leaf set and the workers attached to it. --placement names the strategy; give all peers of a
ring the same.

    adaptive     Our own, and the default: knows how far peers are from each other, remembers what earlier sites looked like, learns from each connection that
                 is made to fetch, and probes where that changes a choice that is worth it: at most about two probes a site in the mean, and few for small hosts.
    rtt          The candidates measure the round trip to each site of eight URLs or more, and the smallest wins (Apoidea: Singh, Srivatsa, Liu, Miller 2003).
    ipmicra      Gives whole subnets to peers, along the registered IP ranges, by few probes (IPMicra: Papapetrou, Samaras 2004).
    coordinates  Places peers and servers in a space, by gossip and by downloads that were due anyway, and takes the nearest peer (Malet 2009).
    geo          Takes the peer nearest on the globe, by --geoip; measures nothing (the baseline of Malet 2009).
    random       Draws a candidate by a hash of host and peer: a baseline that knows nothing of distance.
    owner        Leaves each host with its owner: a baseline that costs no message.

A worker that is full is passed over, and a host whose fetches take more than twice as long as they did is placed anew, whatever the strategy.

    --probe             How a site is measured: connect is a TCP connect; head is a HEAD request, made only where robots.txt is known and allows it.
    --geoip             A MaxMind DB of positions or countries, for geo; adaptive takes the countries as hints.
    --hierarchy         IP ranges, for ipmicra: CSV with the columns prefix and org, or a registry's delegated-extended file, gzip or not. Without it each /24 and /48 is a range of its own. ipmicra reads a file that changed again within three minutes. adaptive takes the ranges as hints, once.
    --threshold         For ipmicra: less finds nearer peers with more probes.
    --theta             For coordinates: smaller takes more downloads, and places better.
    --gossip            For coordinates: a new peer asks ten times as often at first.
    --coordinates-mode  persistent looks at a host again every 100 URLs, cycle estimates each server once, single only the first 100 servers, none leaves each host with its owner.

"apoidea host HOST" shows who measured what, "apoidea experiment run placement -o DIR" compares them.`

const aboutSeeds = `Where a crawl begins: seed URLs are arguments of run and of crawl, or the lines of a list, which may have millions.

    apoidea run https://example.org/ --contact https://you.example/crawler
    apoidea crawl --seeds list.txt --max-depth 0 --wait

Flags of run say how a peer finds its ring. No public ring is built in.

    --dns-seed NAME      Asks DNS for entry peers: the TXT records of _dnsaddr.NAME. "apoidea seed serve" answers for such a name, "apoidea seed zone" prints the records.
    --bootstrap ADDRESS  Names an entry peer. "apoidea peers --addrs" prints its addresses there.
    --mdns               Finds peers of the same --network on the local network, and is found; in the public profile at public addresses only.

Each can be given with the others. A peer remembers those that it met, and needs none of these after its first run. With none of them and nothing on disk it founds a ring
of its own. One that has known others goes on looking for them; --found has it serve alone.

To be an entry peer it has to be dialled from elsewhere: --listen all, or all:4001 for a port of your choice. Else it listens on loopback, but in the public profile and with --mdns.
A port that is not named is chosen once and kept.

To found a public ring, run the first peer, and two more with its address as their --bootstrap (docs/founder.md):

    apoidea run --profile public --contact https://you.example/crawler \
      --listen all:4001 --reachability public --found

"apoidea doctor", with the same flags, says whether names and entry peers answer.`

const aboutDistances = `--latency FILE puts distances between the peers of a cluster, and between peers and sites. FILE is a square matrix of round trips in milliseconds: CSV without a header,
gzip or not, as --rtt of experiments.

Peer i is at row i-1, counted from 0, and listens at 127.0.2.i. Sites are at the rows behind the peers' (--latency-peers; the N of the first time): a name that resolves to
127.0.0.1 at row P + FNV-1a(name) mod (rows - P) for P rows of peers, the name without a port, and it is shown at the address 127.(128+row/256).(row%256).1; another loopback
address by the hash of its text. This needs all of 127.0.0.0/8, as Linux and Windows have it.

The dialling side delays both directions by half a round trip, and a connect takes a whole one; servers need not know.

With --placement ipmicra the addresses that are shown are those of the search: sites of one row are a subnet, peers are together in 127.0.2.0/24, and nothing says which rows
are near each other unless the --hierarchy nests such ranges. Without --latency all sites are in 127.0.0.0/24, so that one peer crawls them all, until it has its hands full.

A peer that is run by itself is told its place by --latency-row and --latency-peers.`

func aboutExperiments() string {
	var b strings.Builder
	b.WriteString("What each does; `apoidea experiment run NAME -o DIR` runs it, and docs/experiments.md has the tables.\n")
	for _, e := range experiment.All() {
		fmt.Fprintf(&b, "\n%s: %s.\n\n%s\n", e.Name, e.About, e.Long)
	}
	return b.String()
}
