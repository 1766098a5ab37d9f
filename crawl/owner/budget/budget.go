package budget

import (
	"math"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// How often an account is told to the job's owner: what changed at the latest after reportEvery,
// and while something is held at least every refreshEvery, so that the job's owner does not take
// this peer for dead.
const (
	reportEvery  = 5_000
	refreshEvery = 30_000
	drawTimeout  = 10_000
	// askEvery is how long after a draw that brought nothing the next one goes out.
	askEvery = 1000
)

// never is the time of what does not come by itself.
const never = int64(math.MaxInt64)

// drawShare parts of a budget are drawn at a time at most, so that one peer does not take all of
// it; and of bytes so many reserves.
const drawShare = 16

// Budget is what this peer drew of a job's budget, and what became of it. A token that was drawn is
// free, then bound to a URL by a promise, then used, or free again; what is free may be given back.
//
//	state      next      because
//	idle       drawing   Draw: something is needed, given back or to be told
//	drawing    idle      Answered: the job's owner said what there is, or nothing
//	drawing    drawing   Draw: drawTimeout is over without an answer
type Budget struct {
	Pages    ondisk.Account // in pages
	Bytes    ondisk.Account // in bytes
	reported [6]uint64      // totals of both accounts as last told to the job's owner
	Drawing  bool           // a draw is under way
	drawn    int64          // when the last draw was answered or sent
	Granted  int64          // when a URL was granted last, or budget came to grant some
	Starved  bool           // some host waits for tokens
	short    bool           // the last draw of bytes brought less than it asked for
	Changed  bool           // since it was last written
}

// New returns a budget of which nothing was drawn.
func New() Budget { return Budget{drawn: math.MinInt64 / 2} }

// Bounds are what a budget is drawn and promised within.
type Bounds struct {
	Pages   uint64 // of the job; 0: no bound
	Bytes   uint64 // likewise
	Reserve uint64 // bytes that a URL is promised, if there are as many
	Draw    uint64 // most pages that are drawn at a time
}

// Demand is what a job asks of its budget at a time.
type Demand struct {
	Bounds          // what it may have
	Waiting   int64 // URLs that wait here
	Out       int64 // URLs that are leased
	Grants    bool  // the job is in a state in which URLs are granted
	Exhausted bool  // the whole budget is known to be used up
}

// Bounded says whether URLs of the job are granted against a promise.
func Bounded(spec *job.Spec) bool { return spec.Budgeted() || spec.MaxPagesPerHost > 0 }

// Least is the least of a byte budget that a URL is granted with: with less, the last pages of a
// job would only be found too large. A body that was cut uses as much, so that few such requests
// are made before the rest is used up, and yet one large file does not end a job.
func (l *Bounds) Least() uint64 { return max(min(l.Reserve, l.Bytes/4)/16, 1) }

// Affords says whether a URL may be granted now.
func (b *Budget) Affords(l Bounds) bool {
	return (l.Pages == 0 || b.Pages.Free() > 0) && (l.Bytes == 0 || b.Bytes.Free() >= b.enough(l))
}

// enough is how many bytes a URL is granted with: less than a reserve only of the job's last bytes.
func (b *Budget) enough(l Bounds) uint64 {
	if b.short {
		return l.Least()
	}
	return max(min(l.Reserve, l.Bytes), 1)
}

// Promise binds tokens to a URL, and says how many bytes.
func (b *Budget) Promise(l Bounds) (bytes uint64) {
	if l.Pages > 0 {
		b.Pages.Bound++
	}
	if l.Bytes > 0 {
		bytes = min(l.Reserve, b.Bytes.Free())
		b.Bytes.Bound += bytes
	}
	b.Changed = true
	return bytes
}

// Settle ends the promise of a page, if pages are bounded, and of some bytes: the page is used if
// there is one, of the bytes what was read, and the rest is free again.
func (b *Budget) Settle(bounded bool, promised, pages, size uint64) {
	if bounded {
		b.Pages.Bound -= min(1, b.Pages.Bound)
		b.Pages.Used += pages
	}
	b.Bytes.Bound -= promised
	b.Bytes.Used += min(size, promised)
	b.Changed = true
}

// Cede books promises as used of which another peer will learn what became.
func (b *Budget) Cede(pages, bytes uint64) {
	b.Pages.Spend(pages)
	b.Bytes.Spend(bytes)
	b.Changed = true
}

func (b *Budget) totals() [6]uint64 {
	return [6]uint64{b.Pages.Drawn, b.Pages.Returned, b.Pages.Used, b.Bytes.Drawn, b.Bytes.Returned, b.Bytes.Used}
}

func (b *Budget) free() uint64 { return b.Pages.Free() + b.Bytes.Free() }

// Draw is the next word to the job's owner: what is needed, given back and used.
func (b *Budget) Draw(d Demand, now int64) *wire.Draw {
	m := &wire.Draw{}
	if b.Starved && !d.Exhausted {
		if d.Out == 0 {
			// Nothing comes back here; what is held of the one budget must not keep another peer
			// from using the other.
			b.giveBack()
		}
		if d.Pages > 0 && b.Pages.Free() == 0 {
			m.Pages = min(uint64(max(d.Waiting, 1)), d.Bounds.Draw, max(d.Pages/drawShare, 1))
		}
		if d.Bytes > 0 && b.Bytes.Free() < b.enough(d.Bounds) {
			m.Bytes = min(drawShare*d.Reserve, max(d.Bytes/drawShare, d.Reserve))
		}
	} else if d.Waiting == 0 || d.Out == 0 && now >= b.Granted+reportEvery {
		b.giveBack()
	}
	if d.Bytes > 0 {
		m.MinBytes = d.Least()
	}
	m.ReturnPages, m.DrawnPages, m.UsedPages = b.Pages.Returned, b.Pages.Drawn, b.Pages.Used
	m.ReturnBytes, m.DrawnBytes, m.UsedBytes = b.Bytes.Returned, b.Bytes.Drawn, b.Bytes.Used
	b.Drawing, b.drawn = true, now
	return m
}

// giveBack returns what the peer has no use for.
func (b *Budget) giveBack() {
	for _, a := range []*ondisk.Account{&b.Pages, &b.Bytes} {
		if n := a.Free(); n > 0 {
			a.Returned += n
			b.Changed = true
		}
	}
}

// DrawAt is when the next draw is due; never if there is nothing to be said.
func (b *Budget) DrawAt(d Demand) int64 {
	switch {
	case b.Drawing:
		return b.drawn + drawTimeout
	case b.Starved && !d.Exhausted && d.Grants:
		return b.drawn + askEvery
	case d.Waiting == 0 && d.Out == 0 && (b.totals() != b.reported || b.free() > 0):
		return b.drawn + askEvery
	case d.Out == 0 && b.free() > 0:
		return max(b.drawn+askEvery, b.Granted+reportEvery)
	case b.totals() != b.reported:
		return b.drawn + reportEvery
	case b.free()+b.Pages.Bound+b.Bytes.Bound > 0:
		return b.drawn + refreshEvery
	default:
		return never
	}
}

// Answered takes the answer to a draw, nil if there was none, and says whether it says anything.
func (b *Budget) Answered(draw *wire.Draw, reply *wire.JobReply, now int64) bool {
	b.Drawing, b.drawn = false, now
	if reply == nil || reply.GetError() != "" {
		return false
	}
	b.reported = [6]uint64{
		b.Pages.Drawn, draw.GetReturnPages(), draw.GetUsedPages(), b.Bytes.Drawn, draw.GetReturnBytes(), draw.GetUsedBytes(),
	}
	if draw.GetBytes() > 0 {
		b.short = reply.GetBytes() < b.Bytes.Drawn+draw.GetBytes()
	}
	if reply.GetPages() > b.Pages.Drawn || reply.GetBytes() > b.Bytes.Drawn {
		b.Pages.Drawn = max(b.Pages.Drawn, reply.GetPages())
		b.Bytes.Drawn = max(b.Bytes.Drawn, reply.GetBytes())
		b.reported[0], b.reported[3] = b.Pages.Drawn, b.Bytes.Drawn
		b.Granted = now
		b.drawn = now - askEvery // more is asked for at once if this is not enough
		b.Changed = true
	}
	b.Starved = false
	return true
}
