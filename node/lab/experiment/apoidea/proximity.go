package apoidea

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Proximity repeats figure 4 of Apoidea.
var Proximity = trial.Experiment{
	Name:  "apoidea-proximity",
	About: "one peer crawls four families of sites, near to distant: the cost of distance",
	Long: `Apoidea, figure 4 (papers 1.5). A peer in Atlanta crawls four families of hosts in turn, in virtual time. They are near Pittsburgh (.edu from cmu),
Tokyo (.ac.jp from u-tokyo), Sydney (.edu.au from unsw) and Mumbai (.ac.in from iitb). A matrix of round trips has no positions. There the peer is
drawn, and families follow its round trips. They are the sites around the 5th, 50th, 75th and 95th percentile: near, middle, far, farthest. Figures
are means over ` + fmt.Sprint(proximityPeers) + ` peers.

A page costs a round trip on an open connection, the server's time and slow start, then disk and CPU time. The machine is the paper's with six threads
under low load and two under high load, or today's with six. The nearer the sites, the larger is the machine's part of the time.`,
	Run: runApoideaProximity,
}

const (
	proximityPeers = 5
	// familySites is the number of hosts of a family. In a small matrix they share an eighth of the
	// nodes.
	familySites = 20
	// proximityPool is the number of sites drawn for families from an unlimited internet, peersPool
	// that of peers.
	proximityPool = 8000
	peersPool     = 1000
)

// family is a group of hosts at one place, or at one distance.
type family struct {
	row string
	// at is the position of its hosts; quantile of the round trips selects them without positions.
	at       placement.Position
	quantile float64
}

// Positions of the paper's peer and universities.
var (
	paperPeer     = placement.Position{Lat: 33.8, Lon: -84.4}
	paperFamilies = []family{
		{row: "edu", at: placement.Position{Lat: 40.4, Lon: -79.9}},
		{row: "ac.jp", at: placement.Position{Lat: 35.7, Lon: 139.8}},
		{row: "edu.au", at: placement.Position{Lat: -33.9, Lon: 151.2}},
		{row: "ac.in", at: placement.Position{Lat: 19.1, Lon: 72.9}},
	}
	matrixFamilies = []family{{row: "near", quantile: 0.05}, {row: "middle", quantile: 0.5}, {row: "far", quantile: 0.75}, {row: "farthest", quantile: 0.95}}
)

// proximityCases are the machines.
func proximityCases() []threadsCase {
	return []threadsCase{
		{row: "low_load", label: "pentium-550, low load, 6 threads", hardware: pentium(), load: 1, threads: []int{6}, length: 10 * time.Minute},
		{row: "high_load", label: "pentium-550, high load, 2 threads", hardware: pentium(), load: highLoadShare, threads: []int{2}, length: 20 * time.Minute},
		{row: "today", label: "today, 6 threads", hardware: today(), load: 1, threads: []int{6}, length: 10 * time.Minute},
	}
}

func runApoideaProximity(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	families, peers, err := chooseFamilies(net, o.Rand(0x70726f78))
	if err != nil {
		return err
	}
	cases := proximityCases()
	// pages by case and family, of each peer.
	pages := make([][][]float64, len(cases))
	rtts := make([][]time.Duration, len(families))
	for i, c := range cases {
		pages[i] = make([][]float64, len(families))
		c.length /= trial.Either[time.Duration](o, 1, 10)
		for k, sites := range peers {
			progress(fmt.Sprintf("%s, peer %d", c.row, k+1), (float64(i)+float64(k)/float64(len(peers)))/float64(len(cases)))
			for f := range families {
				got, err := runApoidea(ctx, o.Rand(uint64(k)), apoideaSetup{ // positive
					hardware: c.hardware, load: c.load, peers: 1, threads: c.threads[0], sites: sites[f], length: c.length,
				})
				if err != nil {
					return err
				}
				pages[i][f] = append(pages[i][f], got.perPeer())
				if i == 0 {
					rtts[f] = append(rtts[f], sites[f]...)
				}
			}
		}
	}
	proximityTable(r, families, cases, pages, rtts)
	return nil
}

// chooseFamilies returns the families and, for each of the peers, the round trips to the hosts of
// each.
func chooseFamilies(net *internet.Internet, rnd *rand.Rand) (families []family, peers [][][]time.Duration, err error) {
	if _, _, ok := net.Position(0); ok && net.Size() == 0 {
		peers, err = familiesByPlace(net, rnd)
		return paperFamilies, peers, err
	}
	count := min(familySites, net.Size()/8)
	if count < 1 {
		return nil, nil, fmt.Errorf("%w: a matrix of %d nodes, want at least 8", trial.ErrOptions, net.Size())
	}
	for range proximityPeers {
		p, sites, err := net.Draw(rnd, 1, net.Size()-1)
		if err != nil {
			return nil, nil, err
		}
		slices.SortFunc(sites, func(a, b int) int { return cmp.Compare(net.RTT(p[0], a), net.RTT(p[0], b)) })
		var of [][]time.Duration
		for _, f := range matrixFamilies {
			middle := int(f.quantile * float64(len(sites)))
			from := min(max(middle-count/2, 0), len(sites)-count)
			of = append(of, tripsTo(net, p[0], sites[from:from+count]))
		}
		peers = append(peers, of)
	}
	return matrixFamilies, peers, nil
}

// familiesByPlace takes the peers nearest to the paper's and the sites nearest to its universities,
// by the positions of a database.
func familiesByPlace(net *internet.Internet, rnd *rand.Rand) (peers [][][]time.Duration, err error) {
	p, sites, err := net.Draw(rnd, peersPool, proximityPool)
	if err != nil {
		return nil, err
	}
	groups := make([][]int, len(paperFamilies))
	for f := range paperFamilies {
		groups[f] = nearestTo(net, sites, paperFamilies[f].at, familySites)
	}
	for _, peer := range nearestTo(net, p, paperPeer, proximityPeers) {
		var of [][]time.Duration
		for _, g := range groups {
			of = append(of, tripsTo(net, peer, g))
		}
		peers = append(peers, of)
	}
	return peers, nil
}

// nearestTo returns the hosts nearest to a place, by the positions of a database.
func nearestTo(net *internet.Internet, hosts []int, to placement.Position, count int) []int {
	distance := make(map[int]float64, len(hosts))
	var known []int
	for _, h := range hosts {
		if lat, lon, ok := net.Position(h); ok {
			distance[h] = to.Distance(placement.Position{Lat: lat, Lon: lon})
			known = append(known, h)
		}
	}
	slices.SortFunc(known, func(a, b int) int { return cmp.Or(cmp.Compare(distance[a], distance[b]), cmp.Compare(a, b)) })
	return known[:min(count, len(known))]
}

// tripsTo returns the round trips to the hosts of a family.
func tripsTo(net *internet.Internet, peer int, hosts []int) []time.Duration {
	out := make([]time.Duration, familySites)
	for i := range out {
		out[i] = net.RTT(peer, hosts[i%len(hosts)])
	}
	return out
}

// paperProximity is the paper's speed of near sites relative to far ones, .edu to .edu.au.
const paperProximity = 2

func proximityTable(r *report.Report, families []family, cases []threadsCase, pages [][][]float64, rtts [][]time.Duration) {
	plot := report.Plot{Name: "families", Title: "Cost of distance: one peer, families of sites", Y: "pages per second, % of the nearest", YMin: 0, YMax: 110}
	s := report.Series{Name: "families", Columns: []string{"family", "rtt_ms"}}
	for f := range families {
		slices.Sort(rtts[f])
		r.Table.Add(families[f].row, "rtt_median", "ms", rtts[f][len(rtts[f])/2].Seconds()*1000)
		row := []float64{float64(f), rtts[f][len(rtts[f])/2].Seconds() * 1000}
		for i := range cases {
			r.Table.Add(families[f].row, "pages_"+cases[i].row, "pages/s", report.Mean(pages[i][f]))
			row = append(row, report.Mean(pages[i][f]))
		}
		s.Names, s.Rows = append(s.Names, families[f].row), append(s.Rows, row)
		plot.Groups = append(plot.Groups, fmt.Sprintf("%s, %.0f ms", families[f].row, row[1]))
	}
	for i := range cases {
		near, far := report.Mean(pages[i][0]), report.Mean(pages[i][2])
		paper := math.NaN()
		if i == 0 { // the paper does not give the load
			paper = paperProximity
		}
		r.Table.Compare("near/far", "near_over_far_"+cases[i].row, "times", paper, near/far)
		bars := report.Bars{Label: cases[i].label}
		for f := range families {
			bars.Values = append(bars.Values, 100*report.Mean(pages[i][f])/near)
		}
		plot.Bars = append(plot.Bars, bars)
		s.Columns = append(s.Columns, "pages_per_s_"+cases[i].row)
	}
	r.Plots, r.Series = append(r.Plots, plot), append(r.Series, s)
}
