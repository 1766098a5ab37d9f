package leases

import (
	"cmp"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

const (
	// relieveEvery in ms is the least time between two hosts taken from a worker: what one less
	// brings shows in its backlog only after a while, and other owners relieve it as well.
	relieveEvery = 2000
)

// Relieve takes a host from an overloaded worker (design, section 5; papers 2.4): the one whose
// probe results vary least between those that measured it, as it is nearly as well off elsewhere.
// It finishes what it has of it. Nothing is taken while nobody is known who could have room for it:
// then load tells none from another.
func (pl *Placer) Relieve(s *hosts.Session) {
	if !s.Overloaded() || pl.Now < s.Relieved+relieveEvery {
		return
	}
	means := meansOf(s)
	var least *hosts.Host
	var variance float64
	for h := range s.Leases {
		if h.Search.Replace || h.Lease.Bounded || h.Unleased() < pl.Cfg.PlaceMin || !pl.hasRoomFor(h, s) {
			continue
		}
		v := h.Variance(means)
		if least == nil || cmp.Or(cmp.Compare(v, variance), cmp.Compare(h.Rec.Name, least.Rec.Name)) < 0 {
			least, variance = h, v
		}
	}
	if least == nil {
		return
	}
	s.Relieved = pl.Now
	least.Search.Again(anewRelieved)
	if s.Peer != pl.Cfg.Self { // the owner is always among the candidates, and known to be overloaded
		least.Search.Exclude = append(least.Search.Exclude, s.Peer)
	}
}

// hasRoomFor says whether somebody else may take a host: one that reached it, or else this peer. A
// worker of whom nothing was heard of late may have room.
func (pl *Placer) hasRoomFor(h *hosts.Host, than *hosts.Session) bool {
	room := func(peer string) bool {
		s := pl.Sessions[peer]
		return peer != than.Peer && (s == nil || pl.Now-s.Heard > pl.Cfg.TTL.Milliseconds() || !s.Overloaded())
	}
	return room(pl.Cfg.Self) || slices.ContainsFunc(h.Rec.Measured, func(m ondisk.Measurement) bool { return m.Error == "" && room(m.Peer) })
}

// meansOf are the mean round trips of those that measured hosts of a worker, in ms.
func meansOf(s *hosts.Session) map[string]float64 {
	sum, n := make(map[string]float64), make(map[string]float64)
	for h := range s.Leases {
		for _, m := range h.Rec.Measured {
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
