package leases

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// offerURLs is the backlog counted for an unanswered offer.
	offerURLs = 8
	// grownFactor is the growth since the placement after which a host is placed again, if that
	// placement was unsure.
	grownFactor = 4

	// Reasons of another placement.
	anewSlower   = "placed again: fetches became slower"
	anewRelieved = "placed again: its worker was overloaded"
	anewGrown    = "placed again: the host had grown"
	anewChecked  = "placed again: pages are to be checked by another worker"
)

// Placer searches for workers of hosts, and tracks the workers.
type Placer struct {
	*hosts.Step
	agenda   *hosts.Agenda
	hosts    *hosts.Table
	checks   *hosts.Checks
	Sessions map[string]*hosts.Session
}

// Ask requests a placement of the host with this step.
func (pl *Placer) Ask(h *hosts.Host) {
	pl.agenda.Searches.Under++
	if pl.agenda.MayBeChecked(h) {
		h.Search.Ask(pl.Now + pl.Cfg.PlaceTimeout.Milliseconds())
		h.Search.Check = true
		exclude := slices.Concat(h.CheckDue().Involved(), h.Search.Exclude, pl.checks.Suspended())
		pl.Ready.Places = append(pl.Ready.Places, hosts.Place{Host: h.Rec.Name, Addrs: h.Rec.Addrs, Exclude: exclude, Check: true, NotBefore: time.UnixMilli(pl.PoliteAt(h))})
		return
	}
	if others := h.Search.Ask(pl.Now + pl.Cfg.PlaceTimeout.Milliseconds()); !others {
		pl.Offer(h, pl.Cfg.Self)
		return
	}
	n := h.Unleased()
	h.Search.Grown = max(grownFactor*n, pl.Cfg.PlaceMin)
	p := hosts.Place{
		Host: h.Rec.Name, Addrs: h.Rec.Addrs, Pending: n, Tiny: n < pl.Cfg.PlaceMin, Known: h.Rec.Placed, Exclude: slices.Concat(h.Search.Exclude, pl.checks.Suspended()),
		Secure: h.Rec.Secure, Remeasure: h.Search.Remeasure, Relieved: h.Search.Anew == anewRelieved, Measured: slices.Clone(h.Rec.Measured), NotBefore: time.UnixMilli(pl.PoliteAt(h)),
	}
	if h.Rec.PlacedAt > 0 {
		p.MeasuredAt = time.UnixMilli(h.Rec.PlacedAt)
	}
	pl.reserve(h, &p)
	pl.Ready.Places = append(pl.Ready.Places, p)
}

// reserve blocks fetches of a host while candidates may measure it by requests. It is on disk
// before the first of them, and part of the host's record, so that the next owner waits as well if
// this peer dies.
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

// Unreserve ends the reserved time: the not-before time is the earlier one, or that set by the
// measuring requests.
func (pl *Placer) Unreserve(h *hosts.Host, owed time.Time) {
	before, until := h.Search.Unreserve()
	if before == 0 {
		return
	}
	h.Rec.Unreserve(until, before)
	if !owed.IsZero() { // rounded up to ms
		h.Rec.Owe(min(owed.Add(time.Millisecond-1).UnixMilli(), pl.Now+pl.Cfg.MaxRetryAfter.Milliseconds()))
	}
	pl.hosts.Touched(h)
}

// Calibrate compares the fetch times with those when the worker was new (design, section 5), and
// places the host again if they are slower several times in a row. A host with an unsure placement,
// since it was too small to be measured, is placed again once it has grown.
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
