package owner

import (
	"github.com/klauspost/compress/s2"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// What versions wrote before records were messages: a byte, then values in their order. It is read
// and never written. testdata has a value of each.

func oldHost(b []byte) (hostRecord, error) {
	d := newDec(b)
	r := hostRecord{name: d.str(wire.MaxHost), epoch: Epoch{d.u64(), d.str(wire.MaxPeer)}, version: d.u64()}
	d.uint(2) // a state, of which nothing but 0 was ever written
	r.worker, r.notBefore, r.backoffUntil, r.backoffReason = d.str(wire.MaxPeer), d.time(), d.time(), d.str(maxReason)
	r.fails, r.failOutcome = d.u32(), link.Outcome(d.uint(uint64(link.Outcomes-1)))
	for range d.size(wire.MaxAddrs) {
		r.addrs = append(r.addrs, d.bytes(16))
	}
	r.placed, r.placedAt, r.placedWhy = d.str(wire.MaxPeer), d.time(), d.str(maxReason)
	for range d.size(maxMeasurements) {
		r.measured = append(r.measured, Measurement{d.str(wire.MaxPeer), d.count(), d.str(maxReason)})
	}
	r.fetchBase, r.slowRuns, r.seq, r.outbox, r.secure = d.u32(), d.u32(), d.u64(), d.u64(), d.bool()
	if len(d.b) > 0 {
		o := &r.optOut
		if o.version, o.on, o.at, o.why = d.uint(maxVersion), d.bool(), d.time(), d.str(maxReason); o.version == 0 {
			d.fail()
		}
	}
	if r.name == "" {
		d.fail()
	}
	return r, d.end()
}

func oldCounters(b []byte) (counters, error) {
	d := newDec(b)
	c := counters{accepted: d.count()}
	for i := range d.size(link.Outcomes) { // an earlier version knew fewer
		c.outcomes[i] = d.count()
	}
	c.delayed, c.promised, c.bytes, c.refetched, c.minDepth = d.count(), d.count(), d.count(), d.count(), d.u32()
	c.down, c.downUntil = link.Outcome(d.uint(uint64(link.Outcomes-1))), d.time()
	c.outbox, c.entries, c.exhausted = d.count(), d.count(), d.bool()
	if len(d.b) > 0 {
		c.admission = domain.Verdict(d.byte())
		if len(d.b) > 0 {
			c.leftOut = d.count()
		}
		if len(d.b) > 0 {
			c.requests, c.cut, c.trap = d.count(), d.count(), d.bool()
		}
		if !c.admission.Valid() || c.admission == domain.Unknown && c.leftOut == 0 && c.requests == 0 && c.cut == 0 {
			d.fail()
		}
	}
	return c, d.end()
}

func oldAccounts(b []byte) (a accounts, err error) {
	d := newDec(b)
	for _, of := range []*account{&a.pages, &a.bytes} {
		for _, n := range []*uint64{&of.drawn, &of.returned, &of.used, &of.bound} {
			*n = d.uint(1 << 62)
		}
	}
	return a, d.end()
}

func oldTotals(b []byte) (totals, error) {
	d := newDec(b)
	t := totals{hosts: d.count()}
	return t, d.end()
}

func oldLinks(b []byte) (linkList, error) {
	d := newDec(b)
	l := linkList{again: d.bool()}
	n := d.size(maxList)
	if packed := d.bool(); packed {
		size, err := s2.DecodedLen(d.b)
		if err != nil || size > maxPayload {
			return linkList{}, errFormat
		}
		body, err := s2.Decode(nil, d.b)
		if err != nil {
			return linkList{}, errFormat
		}
		d.b = body
	}
	for i := 0; i < n && !d.bad; i++ {
		k := outlink{depth: d.u32(), hops: uint8(d.uint(wire.MaxRedirects + 1))}
		k.kind, k.url = link.Kind(d.uint(uint64(link.KindRobots))), d.str(link.MaxURL)
		l.links = append(l.links, k)
	}
	return l, d.end()
}
