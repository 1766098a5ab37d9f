package ipmicra

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
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// ipmicraScene is a set of crawlers and sites with all round trips and registry data.
type ipmicraScene struct {
	tree  *ipmicra.Tree
	sites []int
	addrs []netip.Addr      // of the sites
	rtt   [][]time.Duration // by site and crawler
	peers []placement.Candidate
	index map[string]int // of crawlers by peer
}

// newIPMicraScene reads all round trips between crawlers and sites.
func newIPMicraScene(net *internet.Internet, tree *ipmicra.Tree, at *worlds.Addresses, crawlers, sites []int) (*ipmicraScene, error) {
	c := &ipmicraScene{tree: tree, sites: sites, index: make(map[string]int)}
	for i, host := range crawlers {
		peer := "crawler " + strconv.Itoa(i)
		c.index[peer] = i
		addr, err := at.Of(host)
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
		addr, err := at.Of(site)
		if err != nil {
			return nil, err
		}
		c.rtt, c.addrs = append(c.rtt, row), append(c.addrs, addr)
	}
	return c, nil
}

// placed is the placement of a site.
type placed struct {
	worker, probes int
	known          bool          // its subnet had a worker already
	excess         time.Duration // of the worker's round trip over the smallest
}

func (p *placed) optimal() bool { return p.excess <= worlds.Within }

// place lets a strategy place one site; probe measures from a crawler.
func (c *ipmicraScene) place(s placement.Strategy, site int, probe func(site, crawler int) time.Duration) (placed, error) {
	v := placement.View{
		Host: "site " + strconv.Itoa(site), Site: c.addrs[site], Candidates: c.peers, Measured: make(map[string]placement.Measurement, len(c.peers)),
	}
	var p placed
	if m, ok := s.(*ipmicra.Strategy); ok {
		_, worker := m.Worker(v.Site)
		p.known = worker != ""
	}
	choice, probes, err := worlds.Decide(s, &v, func(peer string) time.Duration { return probe(site, c.index[peer]) })
	if err != nil {
		return p, err
	}
	worker, ok := c.index[choice.Worker]
	if !ok {
		return p, fmt.Errorf("site %d: no worker chosen: %s", site, choice.Why)
	}
	p.worker, p.probes, p.excess = worker, probes, c.rtt[site][worker]-slices.Min(c.rtt[site])
	return p, nil
}

// ping returns the round trip itself.
func (c *ipmicraScene) ping(site, crawler int) time.Duration { return c.rtt[site][crawler] }

// placeAll lets a strategy place all sites in their order.
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

// farthest takes the farthest crawler.
func (c *ipmicraScene) farthest() []placed {
	return c.fixed(func(site int) int { return slices.Index(c.rtt[site], slices.Max(c.rtt[site])) }, 0)
}

// drawn takes a random crawler.
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

// collected holds figures of several repeats by metric; a repeat may lack a metric.
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

// median returns the median of all repeats; NaN without any.
func (c *collected) median(metric string) float64 { return report.Median(c.values[metric]) }

// share returns a share in percent; NaN of nothing.
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

// excessOfOthers returns the mean excess in ms of the placements that are not optimal; NaN if all
// are.
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
