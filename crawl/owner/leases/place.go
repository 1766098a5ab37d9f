package leases

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// offerURLs is how much backlog an offer that is not answered yet stands for.
	offerURLs = 8
	// grownFactor times what it had when it was placed, a host is placed anew if its placement was
	// unsure.
	grownFactor = 4

	// Why a host is placed anew.
	anewSlower   = "placed anew, as fetches had become slower"
	anewRelieved = "placed anew, as its worker had its hands full"
	anewGrown    = "placed anew, as the host had grown"
)

// Placer looks for workers for hosts, and knows the workers.
type Placer struct {
	*hosts.Step
	agenda   *hosts.Agenda
	hosts    *hosts.Table
	Sessions map[string]*hosts.Session
}

// Ask has the step ask where a host is to go.
func (pl *Placer) Ask(h *hosts.Host) {
	pl.agenda.Searches.Under++
	if others := h.Search.Ask(pl.Now + pl.Cfg.PlaceTimeout.Milliseconds()); !others {
		pl.Offer(h, pl.Cfg.Self)
		return
	}
	n := h.Unleased()
	h.Search.Grown = max(grownFactor*n, pl.Cfg.PlaceMin)
	p := hosts.Place{
		Host: h.Rec.Name, Addrs: h.Rec.Addrs, Pending: n, Tiny: n < pl.Cfg.PlaceMin, Known: h.Rec.Placed, Exclude: slices.Clone(h.Search.Exclude),
		Secure: h.Rec.Secure, Remeasure: h.Search.Remeasure, Relieved: h.Search.Anew == anewRelieved, Measured: slices.Clone(h.Rec.Measured), NotBefore: time.UnixMilli(pl.PoliteAt(h)),
	}
	if h.Rec.PlacedAt > 0 {
		p.MeasuredAt = time.UnixMilli(h.Rec.PlacedAt)
	}
	pl.reserve(h, &p)
	pl.Ready.Places = append(pl.Ready.Places, p)
}

// reserve keeps a host from being fetched from while candidates may send requests to measure it. It
// is on disk before the first of them, and goes along with the host's record: should this peer die
// meanwhile, whoever is the owner then waits as well.
func (pl *Placer) reserve(h *hosts.Host, p *hosts.Place) {
	if pl.Cfg.RequestTime <= 0 || p.Tiny || h.Rec.BackoffUntil > pl.Now {
		return
	}
	polite := pl.PoliteAt(h)
	until := max(pl.Now, polite, 1) + pl.Cfg.RequestTime.Milliseconds()
	h.Search.Reserve(polite, until)
	h.Rec.Reserve(until)
	p.RequestsUntil = time.UnixMilli(until)
	pl.hosts.Touched(h)
}

// Unreserve ends the time of requests that measure: what is owed is what was owed before, and what
// is for those that were made.
func (pl *Placer) Unreserve(h *hosts.Host, owed time.Time) {
	before, until := h.Search.Unreserve()
	if before == 0 {
		return
	}
	h.Rec.Unreserve(until, before)
	if !owed.IsZero() {
		h.Rec.Owe(min(owedFor(owed), pl.Now+pl.Cfg.MaxRetryAfter.Milliseconds()))
	}
	pl.hosts.Touched(h)
}

// Calibrate compares how long fetches take with how long they took when the worker was new (design,
// section 5), and has the host placed anew if they are slower several times in a row. A host whose
// placement was unsure, since it was too small to be measured, is placed anew once it has grown.
func (pl *Placer) Calibrate(h *hosts.Host, fetched []*wire.Fetched) {
	var sum, n uint64
	for _, f := range fetched {
		if f.GetFetchedMs() > 0 && f.GetDurationMs() > 0 {
			sum += uint64(f.GetDurationMs())
			n++
		}
	}
	if n == 0 || h.Lease == nil {
		return
	}
	if h.Search.Grown > 0 && h.Unleased() >= h.Search.Grown {
		h.Search.Again(anewGrown)
		h.Search.Grown = 0
	}
	if mean := uint32(min(sum/n, 1<<31)); h.Rec.Slower(mean) { // bounded
		h.Search.Again(anewSlower)
		h.Search.Remeasure = true
	}
	pl.hosts.Touched(h)
}

// owedFor is until when politeness is owed, in the time of the records, rounded up.
func owedFor(at time.Time) int64 { return at.Add(time.Millisecond - 1).UnixMilli() }
