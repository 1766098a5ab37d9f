package leases

import (
	"cmp"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

const (
	// relieveEvery is the minimum in ms between two hosts taken from a worker: the effect shows in its
	// backlog with a delay, and other owners relieve it as well.
	relieveEvery = 2000
)

// Relieve takes a host from an overloaded worker (design, section 5; papers 2.4): the one whose RTT
// samples vary least between candidates, since another worker suits it nearly as well. The worker
// finishes its URLs of it. Nothing is taken while no other candidate may have free capacity, since
// load then distinguishes none.
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
	if s.Peer != pl.Cfg.Self { // the owner is always a candidate, and known to be overloaded
		least.Search.Exclude = append(least.Search.Exclude, s.Peer)
	}
}

// hasRoomFor reports whether another peer may take a host: one that reached it, or else this peer.
// A worker without a recent report may have free capacity.
func (pl *Placer) hasRoomFor(h *hosts.Host, than *hosts.Session) bool {
	room := func(peer string) bool {
		s := pl.Sessions[peer]
		return peer != than.Peer && (s == nil || pl.Now-s.Heard > pl.Cfg.TTL.Milliseconds() || !s.Overloaded())
	}
	return room(pl.Cfg.Self) || slices.ContainsFunc(h.Rec.Measured, func(m ondisk.Measurement) bool { return m.Error == "" && room(m.Peer) })
}

// meansOf returns the mean RTT in ms of each peer that measured hosts of a worker.
func meansOf(s *hosts.Session) map[string]float64 {
	sum, n := make(map[string]float64), make(map[string]float64)
	for h := range s.Leases {
		for _, m := range h.Rec.Measured {
			if m.Error == "" {
				sum[m.Peer] += float64(m.RTTUs) // integers: a sum of fractions depends on the order
				n[m.Peer]++
			}
		}
	}
	for peer := range sum {
		sum[peer] /= 1000 * n[peer]
	}
	return sum
}
