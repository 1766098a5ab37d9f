package apoidea

import (
	"context"
	"fmt"
	"math"
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
	Long: `Apoidea, figure 6 (papers 1.5), with up to 64 peers (--peers). Peers on one LAN, each on its own machine, crawl in virtual time. As in the paper, a peer has two threads
under high load and six under low load. Hosts belong to peers by ring arc. A page causes messages: its links to the owners of their hosts, and a query for its body to
the owner of the digest. Messages are batched by destination. Both ends of a message spend CPU time on it. A single peer sends none. Figures are medians of ten draws of
sites and ring, with the 5th and the 95th percentile.

Two inputs are measured (scripts/bench.sh peers). A call between real peers takes 50 % of the CPU time of a page, the records of a page for a replica 3 %. The rest is
chosen, since the paper does not give it. Its machine is 25 times slower, for messages as for pages; a page occupies the disk for 36 ms; batches wait for 100 ms. The
paper only has a plot: pages per peer fall with the second peer under either load, and are nearly constant from 12 to 16.

Rows pentium-550 have the paper's machine and messages. Under low load the measured cost of messages raises the CPU usage but costs no pages. The threads wait for sites
and disk, and the CPU has time left. In rows with waits, a thread also waits for the answer about its page. Then both curves fall as in the paper. This is a hypothesis:
by the text of the paper a late answer does no harm.

Rows today have the machine of scripts/bench.sh, sites on the same LAN, and a CPU that is never idle. They add confirmations of bodies and copies of records on two
other peers. In row one machine all peers share a CPU, and figures are of all peers together, to compare them with real peers. It omits the cost of more processes. Real
peers also make calls for leases, the ring and statistics, but fewer for links.`,
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
	// oneMachine is the share of the CPU with which one peer makes the 498 pages a second of
	// scripts/bench.sh peers.
	oneMachine = 498.0 / 1949
)

// peersCase is a line of the figure.
type peersCase struct {
	row      string
	setup    apoideaSetup
	together bool // on one machine, whose load the peers share
}

func peersCases(far, lan []time.Duration) []peersCase {
	return []peersCase{
		{row: "pentium-550, high load", setup: apoideaSetup{hardware: pentium(), load: highLoadShare, threads: 2, kinds: apoideaMessages(false), length: 5 * time.Minute, sites: far}},
		{row: "pentium-550, low load", setup: apoideaSetup{hardware: pentium(), load: 1, threads: 6, kinds: apoideaMessages(false), length: time.Minute, sites: far}},
		{row: "pentium-550, high load, waits", setup: apoideaSetup{hardware: pentium(), load: highLoadShare, threads: 2, kinds: apoideaMessages(true), length: 5 * time.Minute, sites: far}},
		{row: "pentium-550, low load, waits", setup: apoideaSetup{hardware: pentium(), load: 1, threads: 6, kinds: apoideaMessages(true), length: time.Minute, sites: far}},
		{row: "today, full load", setup: apoideaSetup{hardware: today(), load: 1, threads: 16, kinds: todaysMessages(), length: time.Second / 2, sites: lan, server: lanServer}},
		{row: "today, one machine", setup: apoideaSetup{hardware: today(), load: oneMachine, threads: 16, kinds: todaysMessages(), length: 10 * time.Second, sites: lan, server: lanServer}, together: true},
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
	lan := slices.Repeat([]time.Duration{lanRTT}, sitesPerPeer*most)
	cases := peersCases(nil, nil)
	results := make([]*apoideaResult, draws*len(cases)*len(counts)) // by draw, case and number of peers
	err = trial.Together(ctx, runtime.GOMAXPROCS(0), draws*len(cases), 0, progress, func(ctx context.Context, piece int) (string, error) {
		draw := piece / len(cases)
		far, err := lonePeer(net, o.Rand(uint64(0x70656572+draw)), sitesPerPeer*most) // positive
		c := peersCases(far, lan)[piece%len(cases)]
		load := c.setup.load
		c.setup.length /= trial.Either[time.Duration](o, 1, 5)
		for i := 0; i < len(counts) && err == nil; i++ {
			c.setup.peers = counts[i]
			if c.together {
				c.setup.load = load / float64(counts[i])
			}
			results[piece*len(counts)+i], err = runApoidea(ctx, o.Rand(uint64(draw<<16+counts[i])), c.setup) // positive
		}
		return fmt.Sprintf("%s, draw %d", c.row, draw+1), err
	})
	if err != nil {
		return err
	}
	s := report.Series{Name: "peers", Columns: []string{"case", "peers", "pages_per_s", "share_pct", "share_pct_p5", "share_pct_p95", "messages_per_page", "cpu_pct"}}
	plot := report.Plot{
		Name: "pages", Title: "Cost of communication, median and 5 to 95 % of draws", X: "peers", Y: "pages per second and peer, % of one peer alone", LogX: true, YMin: 0, YMax: 110,
	}
	for n, c := range cases {
		s.Names = append(s.Names, c.row)
		line := report.Line{Label: c.row}
		for i, peers := range counts {
			of := make([][]float64, 4)
			for draw := range draws {
				at := (draw*len(cases)+n)*len(counts) + i
				got, alone := results[at], results[at-i]
				rate, one := float64(got.pages)/got.seconds, float64(alone.pages)/alone.seconds
				if !c.together {
					one *= float64(peers)
				}
				for k, v := range []float64{100 * rate / one, rate, got.perPage(), got.cpuShare()} {
					of[k] = append(of[k], v)
				}
			}
			for k := range of {
				slices.Sort(of[k])
			}
			middle := func(k int) float64 { return report.Quantile(of[k], 0.5) }
			low, high := report.Quantile(of[0], 0.05), report.Quantile(of[0], 0.95)
			line.Add(float64(peers), middle(0))
			line.Low, line.High = append(line.Low, low), append(line.High, high)
			s.Rows = append(s.Rows, []float64{float64(n), float64(peers), middle(1), middle(0), low, high, middle(2), middle(3)})
			if peers == 1 {
				r.Table.Drawn(c.row, "pages_1_peer", "pages/s", math.NaN(), of[1])
				r.Table.Drawn(c.row, "cpu_1_peer", "%", math.NaN(), of[3])
			} else if slices.Contains([]int{2, 4, 8, 12, 16, 64}, peers) {
				metric := fmt.Sprintf("%d_peers", peers)
				r.Table.Drawn(c.row, "pages_"+metric, "% of one peer alone", math.NaN(), of[0])
				r.Table.Drawn(c.row, "messages_"+metric, "messages/page", math.NaN(), of[2])
				r.Table.Drawn(c.row, "cpu_"+metric, "%", math.NaN(), of[3])
			}
		}
		plot.Lines = append(plot.Lines, line)
	}
	r.Series, r.Plots = append(r.Series, s), append(r.Plots, plot)
	return nil
}
