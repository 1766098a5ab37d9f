package ondisk

import (
	"github.com/klauspost/compress/s2"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// What versions wrote before records were messages: a byte, then values in their order. It is read
// and never written. testdata has a value of each.

func oldHost(b []byte) (Host, error) {
	d := newDec(b)
	r := Host{Name: d.str(wire.MaxHost), Epoch: Epoch{d.u64(), d.str(wire.MaxPeer)}, Version: d.u64()}
	d.uint(2) // a state, of which nothing but 0 was ever written
	r.Worker, r.NotBefore, r.BackoffUntil, r.BackoffReason = d.str(wire.MaxPeer), d.time(), d.time(), d.str(maxReason)
	r.Fails, r.FailOutcome = d.u32(), link.Outcome(d.uint(uint64(link.Outcomes-1)))
	for range d.size(wire.MaxAddrs) {
		r.Addrs = append(r.Addrs, d.bytes(16))
	}
	r.Placed, r.PlacedAt, r.PlacedWhy = d.str(wire.MaxPeer), d.time(), d.str(maxReason)
	for range d.size(maxMeasurements) {
		r.Measured = append(r.Measured, Measurement{d.str(wire.MaxPeer), d.count(), d.str(maxReason)})
	}
	r.fetchBase, r.slowRuns, r.Seq, r.Outbox, r.Secure = d.u32(), d.u32(), d.u64(), d.u64(), d.bool()
	if len(d.b) > 0 {
		o := &r.OptOut
		if o.Version, o.On, o.At, o.Why = d.uint(maxVersion), d.bool(), d.time(), d.str(maxReason); o.Version == 0 {
			d.fail()
		}
	}
	if r.Name == "" {
		d.fail()
	}
	return r, d.end()
}

func oldCounters(b []byte) (Counters, error) {
	d := newDec(b)
	c := Counters{Accepted: d.count()}
	for i := range d.size(link.Outcomes) { // an earlier version knew fewer
		c.Outcomes[i] = d.count()
	}
	c.Delayed, c.Promised, c.Bytes, c.Refetched, c.MinDepth = d.count(), d.count(), d.count(), d.count(), d.u32()
	c.Down, c.DownUntil = link.Outcome(d.uint(uint64(link.Outcomes-1))), d.time()
	c.Outbox, c.Entries, c.Exhausted = d.count(), d.count(), d.bool()
	if len(d.b) > 0 {
		c.Admission = domain.Verdict(d.byte())
		if len(d.b) > 0 {
			c.LeftOut = d.count()
		}
		if len(d.b) > 0 {
			c.Requests, c.Cut, c.Trap = d.count(), d.count(), d.bool()
		}
		if !c.Admission.Valid() || c.Admission == domain.Unknown && c.LeftOut == 0 && c.Requests == 0 && c.Cut == 0 {
			d.fail()
		}
	}
	return c, d.end()
}

func oldAccounts(b []byte) (a Accounts, err error) {
	d := newDec(b)
	for _, of := range []*Account{&a.Pages, &a.Bytes} {
		for _, n := range []*uint64{&of.Drawn, &of.Returned, &of.Used, &of.Bound} {
			*n = d.uint(1 << 62)
		}
	}
	return a, d.end()
}

func oldTotals(b []byte) (Totals, error) {
	d := newDec(b)
	t := Totals{Hosts: d.count()}
	return t, d.end()
}

func oldLinks(b []byte) (Links, error) {
	d := newDec(b)
	l := Links{Again: d.bool()}
	n := d.size(MaxList)
	if packed := d.bool(); packed {
		size, err := s2.DecodedLen(d.b)
		if err != nil || size > maxPayload {
			return Links{}, ErrFormat
		}
		body, err := s2.Decode(nil, d.b)
		if err != nil {
			return Links{}, ErrFormat
		}
		d.b = body
	}
	for i := 0; i < n && !d.bad; i++ {
		k := Link{Depth: d.u32(), Hops: uint8(d.uint(wire.MaxRedirects + 1))}
		k.Kind, k.URL = link.Kind(d.uint(uint64(link.KindRobots))), d.str(link.MaxURL)
		l.Links = append(l.Links, k)
	}
	return l, d.end()
}
