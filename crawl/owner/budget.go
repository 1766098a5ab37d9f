package owner

import (
	"math"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
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
	pages, bytes ondisk.Account
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
	return (l.pages == 0 || b.pages.Free() > 0) && (l.bytes == 0 || b.bytes.Free() >= l.least())
}

// promise binds tokens to a URL, and says how many bytes.
func (b *budget) promise(l bounds) (bytes uint64) {
	if l.pages > 0 {
		b.pages.Bound++
	}
	if l.bytes > 0 {
		bytes = min(l.reserve, b.bytes.Free())
		b.bytes.Bound += bytes
	}
	b.changed = true
	return bytes
}

// settle ends the promise of a page, if pages are bounded, and of some bytes: the page is used if there
// is one, of the bytes what was read, and the rest is free again.
func (b *budget) settle(bounded bool, promised, pages, size uint64) {
	if bounded {
		b.pages.Bound -= min(1, b.pages.Bound)
		b.pages.Used += pages
	}
	b.bytes.Bound -= promised
	b.bytes.Used += min(size, promised)
	b.changed = true
}

// cede books promises as used of which another peer will learn what became.
func (b *budget) cede(pages, bytes uint64) {
	b.pages.Spend(pages)
	b.bytes.Spend(bytes)
	b.changed = true
}

func (b *budget) totals() [6]uint64 {
	return [6]uint64{b.pages.Drawn, b.pages.Returned, b.pages.Used, b.bytes.Drawn, b.bytes.Returned, b.bytes.Used}
}

func (b *budget) free() uint64 { return b.pages.Free() + b.bytes.Free() }

// draw is the next word to the job's owner: what is needed, given back and used.
func (b *budget) draw(d demand, now int64) *wire.Draw {
	m := &wire.Draw{}
	if b.starved && !d.exhausted {
		if d.out == 0 {
			// Nothing comes back here; what is held of the one budget must not keep another peer from using the other.
			b.giveBack()
		}
		if d.pages > 0 && b.pages.Free() == 0 {
			m.Pages = min(uint64(max(d.waiting, 1)), d.bounds.draw, max(d.pages/drawShare, 1))
		}
		if d.bytes > 0 && b.bytes.Free() < d.least() {
			m.Bytes = min(drawShare*d.reserve, max(d.bytes/drawShare, d.reserve))
		}
	} else if d.waiting == 0 || d.out == 0 && now >= b.granted+reportEvery {
		b.giveBack()
	}
	if d.bytes > 0 {
		m.MinBytes = d.least()
	}
	m.ReturnPages, m.DrawnPages, m.UsedPages = b.pages.Returned, b.pages.Drawn, b.pages.Used
	m.ReturnBytes, m.DrawnBytes, m.UsedBytes = b.bytes.Returned, b.bytes.Drawn, b.bytes.Used
	b.drawing, b.drawn = true, now
	return m
}

// giveBack returns what the peer has no use for.
func (b *budget) giveBack() {
	for _, a := range []*ondisk.Account{&b.pages, &b.bytes} {
		if n := a.Free(); n > 0 {
			a.Returned += n
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
	case b.free()+b.pages.Bound+b.bytes.Bound > 0:
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
		b.pages.Drawn, draw.GetReturnPages(), draw.GetUsedPages(), b.bytes.Drawn, draw.GetReturnBytes(), draw.GetUsedBytes(),
	}
	if reply.GetPages() > b.pages.Drawn || reply.GetBytes() > b.bytes.Drawn {
		b.pages.Drawn = max(b.pages.Drawn, reply.GetPages())
		b.bytes.Drawn = max(b.bytes.Drawn, reply.GetBytes())
		b.reported[0], b.reported[3] = b.pages.Drawn, b.bytes.Drawn
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
