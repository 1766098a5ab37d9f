package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/lab/experiment"
	"github.com/apoidea/apoidea/node/ops/glossary"
	"github.com/apoidea/apoidea/node/ops/words"
)

// ask queries the running peer and prints the answer, as JSON with --json.
func ask[T any](g *globals, cmd *cobra.Command, question func(*control.Client) (T, error), inWords func(io.Writer, T) error) error {
	c := g.client()
	defer c.Close()
	answer, err := question(c)
	if err != nil {
		return err
	}
	if g.json {
		return words.JSON(cmd.OutOrStdout(), answer)
	}
	return inWords(cmd.OutOrStdout(), answer)
}

// say prints the result of a command: a document, a line, or nothing with --quiet.
func (g *globals) say(out io.Writer, document any, line string) error {
	if g.json {
		return words.JSON(out, document)
	}
	if g.quiet {
		return nil
	}
	_, err := fmt.Fprintln(out, line)
	return err
}

// aboutWords is the glossary for a terminal.
func aboutWords() string {
	width := 0
	for _, w := range glossary.Words {
		width = max(width, len(w.Word))
	}
	var b strings.Builder
	for _, w := range glossary.Words {
		fmt.Fprintf(&b, "    %-*s  %s\n", width, w.Word, w.Means)
	}
	return "Terms of this project:\n\n" + b.String()
}

// newMan writes the manual pages of all commands, for packages.
func newMan() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Short: "Write the manual pages to a directory", Example: "  apoidea man man1", Hidden: true,
		Args: exactly("a directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			root.PersistentFlags().Lookup("data-dir").DefValue = "$XDG_DATA_HOME/apoidea, or ~/.local/share/apoidea" // not that of the build machine
			day := built()                                                                                           // the same build writes the same pages
			header := &doc.GenManHeader{Title: "APOIDEA", Section: "1", Source: "apoidea " + versionString(), Manual: "Apoidea", Date: &day}
			if err := doc.GenManTree(root, header, args[0]); err != nil {
				return fmt.Errorf("man: %w", err)
			}
			return nil
		},
	}
}

// built is the day of the commit that this is built from, the epoch where that is not known.
func built() time.Time {
	t, err := time.Parse(time.RFC3339, buildSetting("vcs.time"))
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return t
}

// newTopics are the help topics.
func newTopics(run *cobra.Command) []*cobra.Command {
	return []*cobra.Command{
		{Use: "distances", Short: "Emulated RTTs between peers and sites (--latency)", Long: aboutDistances},
		{Use: "experiments", Short: "The experiments and their papers", Long: aboutExperiments()},
		{Use: "placement", Short: "Placement strategies (--placement)", Long: aboutPlacement},
		{Use: "seeds", Short: "Seed URLs, entry peers and founding a ring", Long: aboutSeeds},
		{Use: "settings", Short: "Settings of run beyond those of run --help", Long: aboutSettings + rareSettings(run)},
		{Use: "words", Short: "Glossary", Long: aboutWords()},
	}
}

const aboutSettings = `Further settings of run and cluster up. Each is a flag, a key of the configuration file (apoidea config init), and a variable such as APOIDEA_REPLICAS.
`

const aboutLimits = `Resource limits of a peer. Each is a flag of run, a key of the configuration file, and can be changed at run time by "limits set":

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

const aboutPlacement = `The owner of a host selects its worker among itself, its leaf set and the workers attached to it. --placement sets the strategy; all peers of a ring should
use the same.

    adaptive     The default, our own: predicts RTTs from earlier fetches and from RTTs between peers, and probes only where the result can change a worthwhile
                 choice: about two probes per site on average, and few for small hosts.
    rtt          The candidates measure the RTT to each site with eight or more URLs; the smallest wins (Apoidea: Singh, Srivatsa, Liu, Miller 2003).
    ipmicra      Assigns whole subnets to peers, along registered IP ranges, with few probes (IPMicra: Papapetrou, Samaras 2004).
    coordinates  Computes network coordinates of peers and servers from gossip and regular downloads, and selects the nearest peer (Malet 2009).
    geo          Selects the geographically nearest peer from --geoip, without measurements (the baseline of Malet 2009).
    random       Selects a candidate by a hash of host and peer: a baseline without distance.
    owner        Keeps each host at its owner: a baseline without messages.

With every strategy, an overloaded worker is skipped, and a host is placed again when its fetches take more than twice as long as before.

    --probe             How an RTT is measured: connect is a TCP connect; head is a HEAD request, sent only if robots.txt is known and allows it.
    --geoip             A MaxMind DB of positions or countries, for geo.
    --hierarchy         IP ranges for ipmicra: CSV with columns prefix and org, or a registry's delegated-extended file, may be gzipped. Without it each /24 and /48 is a range. The file is read once, at start.

"apoidea host HOST" shows the measurements; "apoidea experiment run placement -o DIR" compares the strategies.`

const aboutSeeds = `Seed URLs are arguments of run and crawl, or lines of a file, which may have millions.

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

To found a public ring, run the first peer, and two more with its address as their --bootstrap (docs/founder.md):

    apoidea run --profile public --contact https://you.example/crawler \
      --listen all:4001 --reachability public --found

"apoidea doctor" with the same flags checks whether DNS seeds and entry peers respond.`

const aboutDistances = `--latency FILE emulates RTTs between the peers of a cluster, and between peers and sites. FILE is a square matrix of RTTs in milliseconds: CSV without a header, may be
gzipped, as for --rtt of experiments.

Peer i has row i-1, counted from 0, and listens at 127.0.2.i. Sites have the rows after the peers' (--latency-peers; the number of peers of the first start). A name that
resolves to 127.0.0.1 has row P + FNV-1a(name) mod (rows - P) for P rows of peers, with the name without port. It is reported at address 127.(128+row/256).(row%256).1.
Another loopback address has the row of the hash of its text. This requires all of 127.0.0.0/8, as on Linux and Windows.

The dialing side delays each direction by half an RTT, and a connect by a whole one; servers need no change.

With --placement ipmicra the reported addresses are used: the sites of a row are one subnet, the peers share 127.0.2.0/24, and the distance between rows is unknown
unless --hierarchy nests such ranges. Without --latency all sites are in 127.0.0.0/24, so one peer crawls them all until it is overloaded.

A single peer gets its row from --latency-row and --latency-peers.`

func aboutExperiments() string {
	var b strings.Builder
	b.WriteString("Run an experiment with: apoidea experiment run NAME -o DIR. The tables are in docs/experiments.md.\n")
	for _, e := range experiment.All() {
		fmt.Fprintf(&b, "\n%s: %s.\n\n%s\n", e.Name, e.About, e.Long)
	}
	return b.String()
}
