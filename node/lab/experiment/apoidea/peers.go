package apoidea

import (
	"context"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// Peers repeats figure 6 of Apoidea.
var Peers = trial.Experiment{
	Name:  "apoidea-peers",
	About: "pages per second and peer by number of peers: the cost of communication",
	Long: `Apoidea, figure 6 (papers 1.5), with up to 64 peers (--peers). Peers on one LAN, each on its own machine, crawl in virtual time. As in the paper, a
peer has two threads under high load and six under low load. Hosts belong to peers by ring arc. A page causes messages: its links to the owners of
their hosts, and a query for its body to the owner of the digest. Messages are batched by destination for 100 ms, as in the node. Both ends of a
message spend CPU time on it. A single peer sends none.

Rows pentium-550 model the paper's machine with the paper's messages. Row today models the machine of scripts/bench.sh under full load: sites on the
same LAN and a CPU that is never idle. It adds our confirmations of bodies and copies of records on two other peers. The paper only has a plot: pages
per peer fall with the second peer and are nearly constant from 12 to 16. Eight processes on one machine do worse (docs/benchmarks.md).`,
	Run: runApoideaPeers,
}

const (
	// sitesPerPeer is the number of hosts per peer of the largest ring: enough for all threads on
	// the smallest arc. Smaller rings crawl the same hosts.
	sitesPerPeer = 32
	// lanServer is the server time of a page on the LAN.
	lanServer = 100 * time.Microsecond
	// mostPeers bounds --peers.
	mostPeers = 256
)

// peersCase is a line of the figure.
type peersCase struct {
	row      string
	hardware *hardware
	load     float64
	threads  int
	kinds    []messageKind
	length   time.Duration
	// near puts the sites on the same LAN.
	near bool
}

func runApoideaPeers(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	most := o.Count(64)
	if most > mostPeers {
		return fmt.Errorf("%w: %d peers, want up to %d", trial.ErrOptions, most, mostPeers)
	}
	r.Input("peers", most)
	var counts []int
	for _, n := range []int{1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 24, 32, 48, 64, 96, 128, 192, 256} {
		if n <= most {
			counts = append(counts, n)
		}
	}
	far, err := lonePeer(net, o.Rand(0x70656572), sitesPerPeer*most)
	if err != nil {
		return err
	}
	cases := []peersCase{
		{"pentium-550, high load", pentium(), highLoadShare, 2, apoideaMessages(), 10 * time.Minute, false},
		{"pentium-550, low load", pentium(), 1, 6, apoideaMessages(), 2 * time.Minute, false},
		{"today, full load", today(), 1, 16, todaysMessages(), 2 * time.Second, true},
	}
	s := report.Series{Name: "peers", Columns: []string{"case", "peers", "pages_per_s_and_peer", "messages_per_page", "cpu_pct"}}
	plots := []report.Plot{
		{Name: "pages", Title: "Cost of communication: peers on one LAN", X: "peers", Y: "pages per second and peer, % of one peer alone", LogX: true, YMin: 0, YMax: 110},
		{Name: "messages", Title: "Messages per page", X: "peers", Y: "messages per page", LogX: true},
	}
	for n, c := range cases {
		s.Names = append(s.Names, c.row)
		c.length /= trial.Either[time.Duration](o, 1, 5)
		line, said := report.Line{Label: c.row}, report.Line{Label: c.row}
		var results []*apoideaResult
		for i, peers := range counts {
			progress(fmt.Sprintf("%s, %d peers", c.row, peers), (float64(n)+float64(i)/float64(len(counts)))/float64(len(cases)))
			got, err := runApoidea(ctx, o.Rand(uint64(peers)), c.setup(peers, far)) // positive
			if err != nil {
				return err
			}
			results = append(results, got)
			line.Add(float64(peers), 100*got.perPeer()/results[0].perPeer())
			said.Add(float64(peers), got.perPage())
			s.Rows = append(s.Rows, []float64{float64(n), float64(peers), got.perPeer(), got.perPage(), got.cpuShare()})
		}
		peersTable(&r.Table, c.row, results)
		plots[0].Lines, plots[1].Lines = append(plots[0].Lines, line), append(plots[1].Lines, said)
	}
	r.Series = append(r.Series, s)
	r.Plots = append(r.Plots, plots...)
	return nil
}

// setup returns the case for a number of peers.
func (c *peersCase) setup(peers int, far []time.Duration) apoideaSetup {
	s := apoideaSetup{hardware: c.hardware, load: c.load, peers: peers, threads: c.threads, sites: far, kinds: c.kinds, length: c.length}
	if c.near {
		s.server = lanServer
		s.sites = make([]time.Duration, len(s.sites))
		for i := range s.sites {
			s.sites[i] = lanRTT
		}
	}
	return s
}

func peersTable(t *report.Table, row string, results []*apoideaResult) {
	one := results[0].perPeer()
	t.Add(row, "pages_1_peer", "pages/s", one)
	t.Add(row, "cpu_1_peer", "%", results[0].cpuShare())
	by := make(map[int]*apoideaResult)
	for _, got := range results {
		by[got.peers] = got
	}
	for _, n := range []int{2, 4, 8, 12, 16, 32, 64} {
		if got := by[n]; got != nil {
			t.Add(row, fmt.Sprintf("pages_a_peer_%d_peers", n), "% of one peer alone", 100*got.perPeer()/one)
		}
	}
	if by[12] != nil && by[16] != nil {
		t.Add(row, "change_12_to_16_peers", "%", 100*(by[16].perPeer()/by[12].perPeer()-1))
	}
	last := results[len(results)-1]
	t.Add(row, fmt.Sprintf("messages_a_page_%d_peers", last.peers), "messages", last.perPage())
	t.Add(row, fmt.Sprintf("cpu_%d_peers", last.peers), "%", last.cpuShare())
}
