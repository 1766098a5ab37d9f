package owner

import (
	"math"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
)

// How often an account is told to the job's owner: what changed at the latest after reportEvery, and while something is held at least
// every refreshEvery, so that the job's owner does not take this peer for dead.
const (
	reportEvery  = 5_000
	refreshEvery = 30_000
	drawTimeout  = 10_000
)

// drawShare parts of a budget are drawn at a time at most, so that one peer does not take all of it; and of bytes so many reserves.
const drawShare = 16

// budget is what this peer drew of a job's budget, and what became of it. A token that was drawn is
// free, then bound to a URL by a promise, then used, or free again; what is free may be given back.
//
//	state      next      because
//	idle       drawing   draw: something is needed, given back or to be told
//	drawing    idle      answered: the job's owner said what there is, or nothing
//	drawing    drawing   draw: drawTimeout is over without an answer
//
// It knows nothing of hosts, disk or clock.
type budget struct {
	pages, bytes account
	reported     [6]uint64 // totals of both accounts as last told to the job's owner
	drawing      bool      // a draw is under way
	drawn        int64     // when the last draw was answered or sent
	granted      int64     // when a URL was granted last, or budget came to grant some
	starved      bool      // some host waits for tokens
	changed      bool      // since it was last written
}

func newBudget() budget { return budget{drawn: math.MinInt64 / 2} }

// bounds are what a budget is drawn and promised within.
type bounds struct {
	pages, bytes uint64 // of the job; 0: no bound
	reserve      uint64 // bytes that a URL is promised, if there are as many
	draw         uint64 // most pages that are drawn at a time
}

// demand is what a job asks of its budget at a time.
type demand struct {
	bounds
	waiting   int64 // URLs that wait here
	out       int64 // URLs that are leased
	grants    bool  // the job is in a state in which URLs are granted
	exhausted bool  // the whole budget is known to be used up
}

// bounded says whether URLs of the job are granted against a promise.
func bounded(spec *job.Spec) bool { return spec.Budgeted() || spec.MaxPagesPerHost > 0 }

// least is the least of a byte budget that a URL is granted with: with less, the last pages of a job would only be found too large.
func (l *bounds) least() uint64 { return max(min(l.reserve, l.bytes/4)/16, 1) }

// affords says whether a URL may be granted now.
func (b *budget) affords(l bounds) bool {
	return (l.pages == 0 || b.pages.free() > 0) && (l.bytes == 0 || b.bytes.free() >= l.least())
}

// promise binds tokens to a URL, and says how many bytes.
func (b *budget) promise(l bounds) (bytes uint64) {
	if l.pages > 0 {
		b.pages.bound++
	}
	if l.bytes > 0 {
		bytes = min(l.reserve, b.bytes.free())
		b.bytes.bound += bytes
	}
	b.changed = true
	return bytes
}

// settle ends the promise of a page, if pages are bounded, and of some bytes: the page is used if there
// is one, of the bytes what was read, and the rest is free again.
func (b *budget) settle(bounded bool, promised, pages, size uint64) {
	if bounded {
		b.pages.bound -= min(1, b.pages.bound)
		b.pages.used += pages
	}
	b.bytes.bound -= promised
	b.bytes.used += min(size, promised)
	b.changed = true
}

// cede books promises as used of which another peer will learn what became.
func (b *budget) cede(pages, bytes uint64) {
	b.pages.spend(pages)
	b.bytes.spend(bytes)
	b.changed = true
}

func (b *budget) totals() [6]uint64 {
	return [6]uint64{b.pages.drawn, b.pages.returned, b.pages.used, b.bytes.drawn, b.bytes.returned, b.bytes.used}
}

func (b *budget) free() uint64 { return b.pages.free() + b.bytes.free() }

// draw is the next word to the job's owner: what is needed, given back and used.
func (b *budget) draw(d demand, now int64) *wire.Draw {
	m := &wire.Draw{}
	if b.starved && !d.exhausted {
		if d.out == 0 {
			// Nothing comes back here; what is held of the one budget must not keep another peer from using the other.
			b.giveBack()
		}
		if d.pages > 0 && b.pages.free() == 0 {
			m.Pages = min(uint64(max(d.waiting, 1)), d.bounds.draw, max(d.pages/drawShare, 1))
		}
		if d.bytes > 0 && b.bytes.free() < d.least() {
			m.Bytes = min(drawShare*d.reserve, max(d.bytes/drawShare, d.reserve))
		}
	} else if d.waiting == 0 || d.out == 0 && now >= b.granted+reportEvery {
		b.giveBack()
	}
	if d.bytes > 0 {
		m.MinBytes = d.least()
	}
	m.ReturnPages, m.DrawnPages, m.UsedPages = b.pages.returned, b.pages.drawn, b.pages.used
	m.ReturnBytes, m.DrawnBytes, m.UsedBytes = b.bytes.returned, b.bytes.drawn, b.bytes.used
	b.drawing, b.drawn = true, now
	return m
}

// giveBack returns what the peer has no use for.
func (b *budget) giveBack() {
	for _, a := range []*account{&b.pages, &b.bytes} {
		if n := a.free(); n > 0 {
			a.returned += n
			b.changed = true
		}
	}
}

// drawAt is when the next draw is due; never if there is nothing to be said.
func (b *budget) drawAt(d demand) int64 {
	switch {
	case b.drawing:
		return b.drawn + drawTimeout
	case b.starved && !d.exhausted && d.grants:
		return b.drawn + askEvery
	case d.waiting == 0 && d.out == 0 && (b.totals() != b.reported || b.free() > 0):
		return b.drawn + askEvery
	case d.out == 0 && b.free() > 0:
		return max(b.drawn+askEvery, b.granted+reportEvery)
	case b.totals() != b.reported:
		return b.drawn + reportEvery
	case b.free()+b.pages.bound+b.bytes.bound > 0:
		return b.drawn + refreshEvery
	default:
		return never
	}
}

// answered takes the answer to a draw, nil if there was none, and says whether it says anything.
func (b *budget) answered(draw *wire.Draw, reply *wire.JobReply, now int64) bool {
	b.drawing, b.drawn = false, now
	if reply == nil || reply.GetError() != "" {
		return false
	}
	b.reported = [6]uint64{
		b.pages.drawn, draw.GetReturnPages(), draw.GetUsedPages(), b.bytes.drawn, draw.GetReturnBytes(), draw.GetUsedBytes(),
	}
	if reply.GetPages() > b.pages.drawn || reply.GetBytes() > b.bytes.drawn {
		b.pages.drawn = max(b.pages.drawn, reply.GetPages())
		b.bytes.drawn = max(b.bytes.drawn, reply.GetBytes())
		b.reported[0], b.reported[3] = b.pages.drawn, b.bytes.drawn
		b.granted = now
		b.drawn = now - askEvery // more is asked for at once if this is not enough
		b.changed = true
	}
	b.starved = false
	return true
}

func pageOf(outcome link.Outcome) uint64 {
	if outcome.Fetched() {
		return 1
	}
	return 0
}
