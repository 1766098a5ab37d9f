package experiment

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// within is how much longer than the smallest a round trip may be to count as optimal: no clock of a busy machine tells them apart.
const within = time.Millisecond

// ipmicraScene is some crawlers and sites of an internet, with all round trips between them and what registries know.
type ipmicraScene struct {
	tree     *ipmicra.Tree
	crawlers []int
	sites    []int
	addrs    []netip.Addr      // of the sites
	rtt      [][]time.Duration // by site and crawler
	peers    []placement.Candidate
	index    map[string]int // of crawlers by peer
}

// fewNodes of a matrix stand for places rather than for hosts: then several sites are drawn at each.
const fewNodes = 200

// drawHosts draws crawlers and sites, all different. Of a matrix the sites are its other nodes in an order that is drawn, fewer than asked for if need be; where
// it has few nodes each of the others is the place of several sites.
func drawHosts(net *internet.Internet, rnd *rand.Rand, peers, sites int) (p, s []int, err error) {
	size := net.Size()
	if size == 0 || peers+sites <= size {
		return net.Draw(rnd, peers, sites)
	}
	if size <= peers {
		return nil, nil, fmt.Errorf("%w: the matrix has %d nodes, want more than the %d crawlers", ErrOptions, size, peers)
	}
	if p, s, err = net.Draw(rnd, peers, size-peers); err != nil {
		return nil, nil, err
	}
	if size >= fewNodes {
		return p, s, nil
	}
	places := s
	for s = nil; len(s) < sites; {
		k := len(s)
		s = append(s, places[k%len(places)]+size*(1+k/len(places)))
	}
	rnd.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
	return p, s, nil
}

// addresses are those of hosts. Where several sites are drawn at a node of a matrix, each round of them has addresses of its own, out of the same prefixes.
type addresses struct {
	o      *Options
	rounds []*internet.Internet
}

func newAddresses(o *Options, net *internet.Internet) *addresses {
	return &addresses{o, []*internet.Internet{net}}
}

func (a *addresses) of(host int) (netip.Addr, error) {
	size, round := a.rounds[0].Size(), 0
	if size > 0 && a.o.Prefixes != "" {
		round = host / size
	}
	for len(a.rounds) <= round {
		seed := a.o.Seed ^ uint64(len(a.rounds))<<48
		net, err := internet.Load(internet.Options{Seed: seed, RTT: a.o.RTT, Prefixes: a.o.Prefixes, Fill: true})
		if err != nil {
			return netip.Addr{}, fmt.Errorf("%w: %w", ErrOptions, err)
		}
		a.rounds = append(a.rounds, net)
	}
	return a.rounds[round].Addr(host), nil
}

// newIPMicraScene measures everything between crawlers and sites.
func newIPMicraScene(net *internet.Internet, tree *ipmicra.Tree, at *addresses, crawlers, sites []int) (*ipmicraScene, error) {
	c := &ipmicraScene{tree: tree, crawlers: crawlers, sites: sites, index: make(map[string]int)}
	for i, host := range crawlers {
		peer := "crawler " + strconv.Itoa(i)
		c.index[peer] = i
		addr, err := at.of(host)
		if err != nil {
			return nil, err
		}
		c.peers = append(c.peers, placement.Candidate{Peer: peer, Self: i == 0, Addr: addr})
	}
	for _, site := range sites {
		row := make([]time.Duration, len(crawlers))
		for i, host := range crawlers {
			row[i] = net.RTT(host, site)
		}
		addr, err := at.of(site)
		if err != nil {
			return nil, err
		}
		c.rtt, c.addrs = append(c.rtt, row), append(c.addrs, addr)
	}
	return c, nil
}

// placed is how a site was placed.
type placed struct {
	worker, probes int
	known          bool          // its subnet had a worker already
	excess         time.Duration // of the worker's round trip over the smallest
}

func (p *placed) optimal() bool { return p.excess <= within }

// place has a strategy place one site; probe is what a crawler measures.
func (c *ipmicraScene) place(s placement.Strategy, site int, probe func(site, crawler int) time.Duration) (placed, error) {
	v := placement.View{
		Host: "site " + strconv.Itoa(site), Site: c.addrs[site], Candidates: c.peers, Measured: make(map[string]placement.Measurement, len(c.peers)),
	}
	var p placed
	if m, ok := s.(*ipmicra.Strategy); ok {
		_, worker := m.Worker(v.Site)
		p.known = worker != ""
	}
	for {
		choice := s.Next(&v)
		if len(choice.Probe) == 0 {
			worker, ok := c.index[choice.Worker]
			if !ok {
				return p, fmt.Errorf("site %d was placed with nobody: %s", site, choice.Why)
			}
			p.worker, p.excess = worker, c.rtt[site][worker]-slices.Min(c.rtt[site])
			return p, nil
		}
		for _, peer := range choice.Probe {
			if _, again := v.Measured[peer]; again {
				return p, fmt.Errorf("%s was to probe site %d again", peer, site)
			}
			v.Measured[peer] = placement.Measurement{RTT: probe(site, c.index[peer])}
			p.probes++
		}
	}
}

// ping is the round trip itself.
func (c *ipmicraScene) ping(site, crawler int) time.Duration { return c.rtt[site][crawler] }

// placeAll has a strategy place all sites in their order.
func (c *ipmicraScene) placeAll(ctx context.Context, s placement.Strategy, probe func(site, crawler int) time.Duration) ([]placed, error) {
	all := make([]placed, len(c.sites))
	for i := range c.sites {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		var err error
		if all[i], err = c.place(s, i, probe); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// everybody lets all candidates probe, and takes the nearest: brute force.
func (c *ipmicraScene) everybody() []placed {
	return c.fixed(func(site int) int { return slices.Index(c.rtt[site], slices.Min(c.rtt[site])) }, len(c.peers))
}

// farthest takes the crawler that is farthest off.
func (c *ipmicraScene) farthest() []placed {
	return c.fixed(func(site int) int { return slices.Index(c.rtt[site], slices.Max(c.rtt[site])) }, 0)
}

// drawn takes any.
func (c *ipmicraScene) drawn(rnd *rand.Rand) []placed {
	return c.fixed(func(int) int { return rnd.IntN(len(c.peers)) }, 0)
}

func (c *ipmicraScene) fixed(worker func(site int) int, probes int) []placed {
	all := make([]placed, len(c.sites))
	for i := range all {
		w := worker(i)
		all[i] = placed{worker: w, probes: probes, excess: c.rtt[i][w] - slices.Min(c.rtt[i])}
	}
	return all
}

// collected are figures of several repeats, by metric; a repeat that has none of one leaves it out.
type collected struct {
	order  []string
	values map[string][]float64
}

func (c *collected) add(metric string, v float64) {
	if c.values == nil {
		c.values = make(map[string][]float64)
	}
	if _, ok := c.values[metric]; !ok {
		c.order, c.values[metric] = append(c.order, metric), nil
	}
	if !math.IsNaN(v) {
		c.values[metric] = append(c.values[metric], v)
	}
}

// mean of all repeats, and their standard deviation; NaN without any.
func (c *collected) mean(metric string) (mean, deviation float64) {
	values := c.values[metric]
	if len(values) == 0 {
		return math.NaN(), math.NaN()
	}
	for _, v := range values {
		mean += v / float64(len(values))
	}
	for _, v := range values {
		deviation += (v - mean) * (v - mean) / float64(max(1, len(values)-1))
	}
	return mean, math.Sqrt(deviation)
}

// share counts, in percent; NaN of nothing.
func share(all []placed, of, is func(*placed) bool) float64 {
	n, hits := 0, 0
	for i := range all {
		if of(&all[i]) {
			n++
			if is(&all[i]) {
				hits++
			}
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return 100 * float64(hits) / float64(n)
}

func probesEach(all []placed) float64 {
	sum := 0
	for i := range all {
		sum += all[i].probes
	}
	return float64(sum) / float64(len(all))
}

// excessOfOthers is the mean distance to the optimum of those that are not optimal, in ms; NaN if all are.
func excessOfOthers(all []placed) float64 {
	sum, n := 0.0, 0
	for i := range all {
		if !all[i].optimal() {
			sum += all[i].excess.Seconds() * 1000
			n++
		}
	}
	return sum / float64(n)
}
