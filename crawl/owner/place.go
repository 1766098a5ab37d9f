package owner

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// unreadAfter in ms a lease is looked at again whose renewal may be among the inputs that wait.
	unreadAfter = 50
	// offerURLs is how much backlog an offer that is not answered yet stands for.
	offerURLs = 8
	// grownFactor times what a host has to have to be placed by measure, it is placed anew if it
	// was not.
	grownFactor = 4

	// Why a host is placed anew.
	anewSlower   = "placed anew, as fetches had become slower"
	anewRelieved = "placed anew, as its worker had its hands full"
	anewGrown    = "placed anew, as the host had grown"
)

// evaluate does for a host what its time has come for.
func (o *Owner) evaluate(h *hosts.Host) {
	if h.Frozen <= o.Now {
		h.Thaw()
	}
	switch {
	case !h.Lapsed(o.Now):
	case h.Lease.SpokenOf():
		h.Lease.Expires = o.Now + o.Cfg.TTL.Milliseconds()
	case h.Lease.Expires > o.Read:
		h.Lease.LookAt = o.Now + unreadAfter
	default:
		h.Rec.Owe(o.OwedAfter(h.Lease.Expires))
		o.leases.end(h, o.leases.lapse(h.Lease), 0)
	}
	if h.Search.State != hosts.SearchIdle && h.Search.Until <= o.Now {
		o.placer.declined(h, h.Search.Offered)
	}
	if o.agenda.MayBePlaced(h) {
		o.agenda.Searches.Queue.Add(h) // those that wait already have their turns as well
	}
	o.agenda.Changed(h)
}

// SettledChanged says that the ring, or [Config.Settled], may answer otherwise than before: hosts
// that waited for that are looked at again. Part of a step; with thousands of hosts in memory, over
// the next ones.
func (o *Owner) SettledChanged() {
	o.reviewer.all(false)
	o.hosts.Sweep.Wanted, o.hosts.Sweep.Cursor, o.hosts.Sweep.NextAt = true, nil, 0
}

// placer looks for workers for hosts, and knows the workers.
type placer struct {
	*hosts.Step
	agenda   *hosts.Agenda
	hosts    *hosts.Table
	sessions map[string]*hosts.Session
}

func (pl *placer) ask(h *hosts.Host) {
	pl.agenda.Searches.Under++
	if others := h.Search.Ask(pl.Now + pl.Cfg.PlaceTimeout.Milliseconds()); !others {
		pl.offer(h, pl.Cfg.Self)
		return
	}
	n := h.Unleased()
	h.Search.Tiny = n < pl.Cfg.PlaceMin
	p := hosts.Place{
		Host: h.Rec.Name, Addrs: h.Rec.Addrs, Pending: n, Tiny: h.Search.Tiny, Known: h.Rec.Placed, Exclude: slices.Clone(h.Search.Exclude),
		Secure: h.Rec.Secure, Remeasure: h.Search.Remeasure, Measured: slices.Clone(h.Rec.Measured), NotBefore: time.UnixMilli(pl.PoliteAt(h)),
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
func (pl *placer) reserve(h *hosts.Host, p *hosts.Place) {
	if pl.Cfg.RequestTime <= 0 || h.Search.Tiny || h.Rec.BackoffUntil > pl.Now {
		return
	}
	polite := pl.PoliteAt(h)
	until := max(pl.Now, polite, 1) + pl.Cfg.RequestTime.Milliseconds()
	h.Search.Reserve(polite, until)
	h.Rec.Reserve(until)
	p.RequestsUntil = time.UnixMilli(until)
	pl.hosts.Touched(h)
}

// unreserve ends the time of requests that measure: what is owed is what was owed before, and what
// is for those that were made.
func (pl *placer) unreserve(h *hosts.Host, owed time.Time) {
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

// calibrate compares how long fetches take with how long they took when the worker was new (design,
// section 5), and has the host placed anew if they are slower several times in a row. A host that
// was too small to be placed by measure is placed so once it has grown.
func (pl *placer) calibrate(h *hosts.Host, fetched []*wire.Fetched) {
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
	if h.Search.Tiny && h.Unleased() >= grownFactor*pl.Cfg.PlaceMin {
		h.Search.Again(anewGrown)
		h.Search.Tiny = false
	}
	if mean := uint32(min(sum/n, 1<<31)); h.Rec.Slower(mean) { // bounded
		h.Search.Again(anewSlower)
		h.Search.Remeasure = true
	}
	pl.hosts.Touched(h)
}

// owedFor is until when politeness is owed, in the time of the records, rounded up.
func owedFor(at time.Time) int64 { return at.Add(time.Millisecond - 1).UnixMilli() }
