package ipmicra

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Room is a peer with free capacity. Its unit is that of [Load]; the paper's is bytes of assigned
// pages to check a day.
type Room struct {
	Peer string  // its ID
	Free float64 // free capacity
}

// Load is the cost of a subnet for its worker.
type Load struct {
	Prefix netip.Prefix // of the subnet
	Load   float64      // its cost
}

// Move is the assignment of a subnet to another worker.
type Move struct {
	Prefix   netip.Prefix // of the subnet
	From, To string       // IDs of peers
	Load     float64      // cost of the subnet
}

// Relieve moves subnets of a total cost of at least excess from an overloaded worker, each to the
// next best crawler with enough capacity (papers 2.4). Those go first whose probe results vary
// least between crawlers, as the move costs least. A subnet without a suitable crawler stays. For a
// subnet with fewer than two probes, missing ones are predicted from the crawler's probes around
// it.
func (s *Strategy) Relieve(now time.Time, worker string, excess float64, loads []Load, rooms []Room) []Move {
	predict := s.predictions()
	free := make(map[string]float64, len(rooms))
	for _, r := range rooms {
		if r.Peer != worker {
			free[r.Peer] = r.Free
		}
	}
	crawlers := append(slices.Sorted(maps.Keys(free)), worker)
	held := s.held(worker, loads, crawlers, predict)
	var moves []Move
	for _, h := range held {
		if excess <= 0 {
			break
		}
		to := ""
		for peer, rtt := range h.times {
			if room, ok := free[peer]; ok && room >= h.load && (to == "" || cmp.Or(cmp.Compare(rtt, h.times[to]), cmp.Compare(peer, to)) < 0) {
				to = peer
			}
		}
		if to == "" {
			continue
		}
		free[to] -= h.load
		excess -= h.load
		moves = append(moves, Move{h.prefix, worker, to, h.load})
		var c Changes
		s.machine.assign(&c, s.memory, h.prefix, to, worker, now)
		s.memory.Merge(c)
	}
	return moves
}

// holding is a subnet of the overloaded worker.
type holding struct {
	prefix   netip.Prefix
	load     float64
	times    map[string]float64 // ms, by crawler
	variance float64
}

// held returns the worker's subnets with a cost, those of the least variance first.
func (s *Strategy) held(worker string, loads []Load, crawlers []string, predict *predictor) []holding {
	var held []holding
	for _, l := range loads {
		record := s.memory.subnets[l.Prefix]
		if record == nil || record.Worker != worker || l.Load <= 0 {
			continue
		}
		h := holding{prefix: l.Prefix, load: l.Load, times: make(map[string]float64)}
		for _, peer := range crawlers {
			if p, ok := record.Probes[peer]; ok {
				h.times[peer] = milliseconds(p.RTT)
			}
		}
		if len(h.times) < 2 {
			for _, peer := range crawlers {
				if _, ok := h.times[peer]; ok {
					continue
				}
				if ms, ok := predict.at(l.Prefix, peer); ok {
					h.times[peer] = ms
				}
			}
		}
		h.variance = variance(slices.Sorted(maps.Values(h.times)))
		held = append(held, h)
	}
	slices.SortFunc(held, func(a, b holding) int { return cmp.Or(cmp.Compare(a.variance, b.variance), a.prefix.Compare(b.prefix)) })
	return held
}

// variance returns that of values in a fixed order, since a sum of floats depends on it.
func variance(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	n, sum, squares := float64(len(values)), 0.0, 0.0
	for _, v := range values {
		sum += v
	}
	for _, v := range values {
		squares += (v - sum/n) * (v - sum/n)
	}
	return squares / n
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// predictor has the mean of a crawler's probes below each range.
type predictor struct {
	tree  *Tree
	means map[crawlerAt]*mean
}

type crawlerAt struct {
	prefix netip.Prefix
	peer   string
}

type mean struct{ sum, n float64 }

// predictions aggregates all probes along the tree.
func (s *Strategy) predictions() *predictor {
	p := &predictor{s.machine.Tree, make(map[crawlerAt]*mean)}
	for record := range s.memory.Subnets() {
		for peer, probe := range record.Probes {
			for at, ok := record.Prefix, true; ok; at, ok = p.tree.Parent(at) {
				key := crawlerAt{at, peer}
				if p.means[key] == nil {
					p.means[key] = new(mean)
				}
				p.means[key].sum += milliseconds(probe.RTT)
				p.means[key].n++
			}
		}
	}
	return p
}

// at predicts a crawler's probe of a range: the mean of its measurements within the smallest
// enclosing range that has any. It returns false without any.
func (p *predictor) at(prefix netip.Prefix, peer string) (float64, bool) {
	for at, ok := prefix, true; ok; at, ok = p.tree.Parent(at) {
		if m := p.means[crawlerAt{at, peer}]; m != nil {
			return m.sum / m.n, true
		}
	}
	return 0, false
}
