package owner

import (
	"cmp"
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

const (
	// overloadedShare of its capacity in hand makes a worker overloaded, as for those that place
	// hosts (crawl/placement).
	overloadedShare = 0.9
	// relieveEvery in ms is the least time between two hosts taken from a worker: what one less
	// brings shows in its backlog only after a while, and other owners relieve it as well.
	relieveEvery = 2000
)

// overloaded says whether a worker told of about as much in hand as it can hold.
func (s *session) overloaded() bool {
	return s.capacity > 0 && float64(s.backlog) >= overloadedShare*float64(s.capacity)
}

// relieve takes a host from an overloaded worker (design, section 5; papers 2.4): the one whose
// probe results vary least between those that measured it, as it is nearly as well off elsewhere.
// It finishes what it has of it. Nothing is taken while nobody is known who could have room for it:
// then load tells none from another.
func (pl *placer) relieve(s *session) {
	if !s.overloaded() || pl.now < s.relieved+relieveEvery {
		return
	}
	means := meansOf(s)
	var least *host
	var variance float64
	for h := range s.leases {
		if h.search.replace || h.lease.bounded || h.unleased() < pl.cfg.PlaceMin || !pl.hasRoomFor(h, s) {
			continue
		}
		v := h.variance(means)
		if least == nil || cmp.Or(cmp.Compare(v, variance), cmp.Compare(h.rec.Name, least.rec.Name)) < 0 {
			least, variance = h, v
		}
	}
	if least == nil {
		return
	}
	s.relieved = pl.now
	least.search.again(anewRelieved)
	if s.peer != pl.cfg.Self { // the owner is always among the candidates, and known to be overloaded
		least.search.exclude = append(least.search.exclude, s.peer)
	}
}

// hasRoomFor says whether somebody else may take a host: one that reached it, or else this peer. A
// worker of whom nothing was heard of late may have room.
func (pl *placer) hasRoomFor(h *host, than *session) bool {
	room := func(peer string) bool {
		s := pl.sessions[peer]
		return peer != than.peer && (s == nil || pl.now-s.heard > pl.cfg.TTL.Milliseconds() || !s.overloaded())
	}
	return room(pl.cfg.Self) || slices.ContainsFunc(h.rec.Measured, func(m ondisk.Measurement) bool { return m.Error == "" && room(m.Peer) })
}

// meansOf are the mean round trips of those that measured hosts of a worker, in ms.
func meansOf(s *session) map[string]float64 {
	sum, n := make(map[string]float64), make(map[string]float64)
	for h := range s.leases {
		for _, m := range h.rec.Measured {
			if m.Error == "" {
				sum[m.Peer] += float64(m.RTTUs) // whole, as a sum of fractions depends on the order
				n[m.Peer]++
			}
		}
	}
	for peer := range sum {
		sum[peer] /= 1000 * n[peer]
	}
	return sum
}

// variance between what was measured of a host. Fewer than two measurements have none: the means of
// those that measured other hosts stand in; without those either it is infinite, so that hosts of
// which something is known go first.
func (h *host) variance(means map[string]float64) float64 {
	var times []float64
	for _, m := range h.rec.Measured {
		if m.Error == "" {
			times = append(times, float64(m.RTTUs)/1000)
		}
	}
	if len(times) < 2 {
		times = times[:0]
		for _, mean := range means {
			times = append(times, mean)
		}
		slices.Sort(times) // a sum of floats depends on the order
	}
	if len(times) < 2 {
		return math.Inf(1)
	}
	sum, squares := 0.0, 0.0
	for _, v := range times {
		sum += v
	}
	mean := sum / float64(len(times))
	for _, v := range times {
		squares += (v - mean) * (v - mean)
	}
	return squares / float64(len(times))
}
