package apoidea

import (
	"context"
	"fmt"
	"runtime"
	"slices"
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
message spend CPU time on it. A single peer sends none. Figures are medians of ten draws, with the 5th and the 95th percentile.

Measured inputs: the CPU time of a page, of a call and of a replica, with real peers (scripts/bench.sh peers). Chosen inputs: the paper's machine is 25
times slower for messages as for pages, a page occupies its disk for 36 ms, and 100 ms for batches, which the paper does not give. The paper only
has a plot: pages per peer fall with the second peer at either load, and are nearly constant from 12 to 16.

Rows pentium-550 model the paper's machine with its messages. Under low load the CPU is idle for most of the time, so messages only fill idle time and
cost no pages. In rows with waits, a thread waits for the answer about its page before it takes the next; then both curves fall as in the paper. This is
a hypothesis: the paper's text does not let threads wait. Rows today model the machine of scripts/bench.sh with a CPU that is never idle, and sites on the
same LAN. They add our confirmations of bodies and copies of records on two other peers. In row one machine all peers share one CPU as in
scripts/bench.sh, to compare the model with real peers (docs/benchmarks.md).`,
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
	// oneMachine is the CPU time per second of all peers in scripts/bench.sh peers.
	oneMachine = 0.65
)

// peersCase is a line of the figure.
type peersCase struct {
	row      string
	hardware *hardware
	// load is the share of the CPU that the crawler gets, on each machine or on the one of all
	// peers.
	load    float64
	threads int
	kinds   []messageKind
	length  time.Duration
	// near puts the sites on the same LAN, together all peers on one machine.
	near, together bool
}

func peersCases() []peersCase {
	return []peersCase{
		{row: "pentium-550, high load", hardware: pentium(), load: highLoadShare, threads: 2, kinds: apoideaMessages(false), length: 5 * time.Minute},
		{row: "pentium-550, low load", hardware: pentium(), load: 1, threads: 6, kinds: apoideaMessages(false), length: 2 * time.Minute},
		{row: "pentium-550, high load, waits", hardware: pentium(), load: highLoadShare, threads: 2, kinds: apoideaMessages(true), length: 5 * time.Minute},
		{row: "pentium-550, low load, waits", hardware: pentium(), load: 1, threads: 6, kinds: apoideaMessages(true), length: 2 * time.Minute},
		{row: "today, full load", hardware: today(), load: 1, threads: 16, kinds: todaysMessages(), length: time.Second, near: true},
		{row: "today, one machine", hardware: today(), load: oneMachine, threads: 16, kinds: todaysMessages(), length: 4 * time.Second, near: true, together: true},
	}
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
	draws := trial.Either(o, 10, 2)
	r.Input("peers", most)
	r.Input("draws", draws)
	var counts []int
	for _, n := range []int{1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256} {
		if n <= most {
			counts = append(counts, n)
		}
	}
	cases := peersCases()
	results := make([][][]*apoideaResult, len(cases)) // by case, number of peers and draw
	for n := range results {
		results[n] = make([][]*apoideaResult, len(counts))
		for i := range counts {
			results[n][i] = make([]*apoideaResult, draws)
		}
	}
	err = trial.Together(ctx, runtime.GOMAXPROCS(0), draws*len(cases), 0, progress, func(ctx context.Context, piece int) (string, error) {
		draw, n := piece/len(cases), piece%len(cases)
		far, err := lonePeer(net, o.Rand(uint64(0x70656572+draw)), sitesPerPeer*most) // positive
		if err != nil {
			return "", err
		}
		for i, peers := range counts {
			setup := cases[n].setup(peers, far)
			setup.length /= trial.Either[time.Duration](o, 1, 5)
			if results[n][i][draw], err = runApoidea(ctx, o.Rand(uint64(draw<<16+peers)), setup); err != nil { // positive
				return "", err
			}
		}
		return fmt.Sprintf("%s, draw %d", cases[n].row, draw+1), nil
	})
	if err != nil {
		return err
	}
	s := report.Series{Name: "peers", Columns: []string{"case", "peers", "pages_per_s_and_peer", "share_pct", "share_pct_p5", "share_pct_p95", "messages_per_page", "cpu_pct"}}
	plots := []report.Plot{
		{Name: "pages", Title: "Cost of communication, median and 5 to 95 % of draws", X: "peers", Y: "pages per second and peer, % of one peer alone", LogX: true, YMin: 0, YMax: 110},
		{Name: "messages", Title: "Messages per page", X: "peers", Y: "messages per page", LogX: true},
	}
	for n, c := range cases {
		s.Names = append(s.Names, c.row)
		share, messages := report.Line{Label: c.row}, report.Line{Label: c.row}
		for i, of := range results[n] {
			m := newPeersFigures(&c, results[n][0], of)
			low, middle, high := spread(m.share)
			share.Add(float64(counts[i]), middle)
			share.Low, share.High = append(share.Low, low), append(share.High, high)
			messages.Add(float64(counts[i]), median(m.messages))
			s.Rows = append(s.Rows, []float64{float64(n), float64(counts[i]), median(m.pages), middle, low, high, median(m.messages), median(m.cpu)})
			peersTable(&r.Table, c.row, counts[i], m, i == len(counts)-1)
		}
		plots[0].Lines, plots[1].Lines = append(plots[0].Lines, share), append(plots[1].Lines, messages)
	}
	r.Series = append(r.Series, s)
	r.Plots = append(r.Plots, plots...)
	return nil
}

// setup returns the case for a number of peers.
func (c *peersCase) setup(peers int, far []time.Duration) apoideaSetup {
	s := apoideaSetup{hardware: c.hardware, load: c.load, peers: peers, threads: c.threads, sites: far, kinds: c.kinds, length: c.length}
	if c.together {
		s.load /= float64(peers)
	}
	if c.near {
		s.server = lanServer
		s.sites = make([]time.Duration, len(s.sites))
		for i := range s.sites {
			s.sites[i] = lanRTT
		}
	}
	return s
}

// peersFigures are the figures of a number of peers, one for each draw.
type peersFigures struct {
	// share is the throughput of a peer, or of the one machine, in percent of that of one peer.
	pages, share, messages, cpu []float64
}

func newPeersFigures(c *peersCase, alone, of []*apoideaResult) *peersFigures {
	m := new(peersFigures)
	for draw, got := range of {
		share := 100 * got.perPeer() / alone[draw].perPeer()
		if c.together {
			share *= float64(got.peers)
		}
		m.pages, m.share = append(m.pages, got.perPeer()), append(m.share, share)
		m.messages, m.cpu = append(m.messages, got.perPage()), append(m.cpu, got.cpuShare())
	}
	return m
}

// spread returns the 5th percentile, the median and the 95th percentile of the draws.
func spread(draws []float64) (low, middle, high float64) {
	ascending := slices.Sorted(slices.Values(draws))
	return report.Quantile(ascending, 0.05), median(draws), report.Quantile(ascending, 0.95)
}

func median(draws []float64) float64 {
	ascending := slices.Sorted(slices.Values(draws))
	return (report.Quantile(ascending, 0.49) + report.Quantile(ascending, 0.51)) / 2
}

// peersTable adds the figures of a number of peers.
func peersTable(t *report.Table, row string, peers int, m *peersFigures, last bool) {
	switch {
	case peers == 1:
		t.Add(row, "pages_1_peer", "pages/s", median(m.pages))
		t.Add(row, "cpu_1_peer", "%", median(m.cpu))
	case slices.Contains([]int{2, 4, 8, 12, 16, 64}, peers):
		low, middle, high := spread(m.share)
		metric := fmt.Sprintf("pages_a_peer_%d_peers", peers)
		t.Add(row, metric, "% of one peer alone", middle)
		t.Add(row, metric+"_p5", "% of one peer alone", low)
		t.Add(row, metric+"_p95", "% of one peer alone", high)
		t.Add(row, fmt.Sprintf("messages_a_page_%d_peers", peers), "messages", median(m.messages))
	}
	if last {
		t.Add(row, fmt.Sprintf("cpu_%d_peers", peers), "%", median(m.cpu))
	}
}
