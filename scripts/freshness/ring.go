package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/apoidea/apoidea/crawl/fresh"
)

// leafSet is the number of neighbors on each side that a peer has heartbeats of.
const leafSet = 8

// peer is an owner of pages with its share of the budget.
type peer struct {
	fresh.Control
	numbers []int // of its pages
	pages   []fresh.Page
	hosts   map[string]*fresh.Means
	job     fresh.Means
	due     []float64 // days
	visits  float64   // in the measured part
}

// newPeers assigns pages to n peers by the hash of their host, or of the page if there is one host.
// It returns the peers with pages.
func newPeers(w *world, n int) []*peer {
	peers := make([]*peer, n)
	for i := range peers {
		peers[i] = &peer{hosts: make(map[string]*fresh.Means)}
	}
	for i := range w.pages {
		key, h := w.pages[i].host, fnv.New64a()
		if w.hosts == 1 {
			key = w.pages[i].url
		}
		fmt.Fprint(h, w.salt, key)
		p := peers[h.Sum64()>>11%uint64(n)]
		if p.hosts[w.pages[i].host] == nil {
			p.hosts[w.pages[i].host] = new(fresh.Means)
		}
		p.numbers = append(p.numbers, i)
	}
	peers = slices.DeleteFunc(peers, func(p *peer) bool { return len(p.numbers) == 0 })
	for _, p := range peers {
		p.Control = fresh.NewControl(float64(len(p.numbers))/w.every, len(p.numbers))
		for k, i := range p.numbers {
			begin := w.pages[i].begin
			p.pages = append(p.pages, fresh.Page{Last: begin, Weight: float32(w.weight[i]), Rate: p.hosts[w.pages[i].host].Prior(&p.job)})
			p.due = append(p.due, p.when(w, k))
		}
	}
	return peers
}

// when returns the day of the next visit to a page by the threshold of now; that of its first visit
// is at a random phase of the interval.
func (p *peer) when(w *world, k int) float64 {
	page := &p.pages[k]
	due := p.Due(*page, page.Last, fresh.Unchanged, len(p.numbers))
	if page.Visits == 0 {
		due = page.Last + (due-page.Last)*w.phase[p.numbers[k]]
	}
	return due
}

// bayes lets n peers visit their pages by crawl/fresh, in steps of an hour, until ctx ends.
func bayes(ctx context.Context, w *world, n int, follow bool) result {
	r, peers := newReplay(w), newPeers(w, n)
	logs, near := make([]float64, len(peers)), []float64(nil)
	for hour := 1; float64(hour)/24 < w.days; hour++ {
		if hour%1000 == 0 && ctx.Err() != nil {
			break
		}
		now := float64(hour) / 24
		for i, p := range peers {
			p.hour(r, now)
			p.Tick()
			logs[i] = p.Log
		}
		if !follow || n == 1 {
			continue
		}
		for i, p := range peers {
			near = near[:0]
			for d := range leafSet {
				near = append(near, logs[(i+d+1)%len(peers)], logs[(i-d%len(peers)+len(peers)-1)%len(peers)])
			}
			p.Follow(near)
		}
	}
	out := r.end()
	for _, p := range peers {
		out[busiest] = max(out[busiest], p.visits/(p.Budget*w.days*(1-warmUp)))
	}
	return out
}

// hour makes the visits of an hour that ends on day now.
func (p *peer) hour(r *replay, now float64) {
	for !p.Spent() {
		k := slices.Index(p.due, slices.Min(p.due))
		if p.due[k] > now {
			return
		}
		if p.due[k] = p.when(r.world, k); p.due[k] > now {
			continue // the threshold rose
		}
		outcome, i := fresh.Unchanged, p.numbers[k]
		if r.visit(i, now) {
			outcome = fresh.Changed
		}
		p.Hour++
		p.pages[k] = p.pages[k].Visit(now, outcome, 0, p.hosts[r.pages[i].host], &p.job)
		p.due[k] = p.when(r.world, k)
		if now >= r.days*warmUp {
			p.visits++
		}
	}
}
