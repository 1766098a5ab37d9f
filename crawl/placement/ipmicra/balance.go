package ipmicra

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Room is a peer that can take more. Its unit is that of [Load]; the paper's is bytes of assigned
// pages to check a day.
type Room struct {
	Peer string  // its ID
	Free float64 // what it can still take
}

// Load is what a subnet costs its worker.
type Load struct {
	Prefix netip.Prefix // of the subnet
	Load   float64      // what it costs
}

// Move is a subnet given to another worker.
type Move struct {
	Prefix   netip.Prefix // of the subnet
	From, To string       // IDs of peers
	Load     float64      // what the subnet costs
}

// Relieve takes subnets worth at least excess from an overloaded worker and gives each to the next
// best crawler that has room for it (papers 2.4). Those go first whose probe results vary least
// between crawlers, as they are nearly as well off elsewhere. A subnet that nobody has room for
// stays. Where a crawler has no probe of a subnet with fewer than two, one is predicted from its
// probes around it.
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

// held are the worker's subnets that cost something, those of the least variance first.
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

// variance of values in a fixed order, since a sum of floats depends on it.
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

// predictor knows the mean of a crawler's probes below each range.
type predictor struct {
	tree  *Tree
	means map[crawlerAt]*mean
}

type crawlerAt struct {
	prefix netip.Prefix
	peer   string
}

type mean struct{ sum, n float64 }

// predictions sums all probes up along the tree.
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

// at predicts a crawler's probe of a range: the mean of what it measured within the smallest range
// around it where it measured anything. False if it never measured.
func (p *predictor) at(prefix netip.Prefix, peer string) (float64, bool) {
	for at, ok := prefix, true; ok; at, ok = p.tree.Parent(at) {
		if m := p.means[crawlerAt{at, peer}]; m != nil {
			return m.sum / m.n, true
		}
	}
	return 0, false
}
