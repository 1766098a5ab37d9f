package ledger

import (
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Intervals of reports to the job's owner: changes are reported after at most reportEvery, and a
// held budget at least every refreshEvery, so that this peer is not considered dead.
const (
	reportEvery  = 5_000
	refreshEvery = 30_000
	drawTimeout  = 10_000
	// askEvery is the delay of the next draw after one that was granted nothing.
	askEvery = 1000
	// usedEvery is that delay if tokens were used since: the job's owner limits those that are not.
	usedEvery = 100
)

// never is the time of an event that is not scheduled.
const never = int64(math.MaxInt64)

// drawShare limits a draw to this fraction of a budget, so that one peer does not take all of it; a
// draw of bytes is limited to as many reserves.
const drawShare = 16

// Budget is this peer's part of a job's budget of pages and bytes: a state machine without access
// to hosts, disk or clock. A token that was drawn is free, then reserved for a URL, then used, or
// free again; free tokens may be returned. The sum of these never exceeds what was drawn.
//
//	state      next      because
//	idle       drawing   Draw: tokens are needed, returned or to be reported
//	drawing    idle      Answered: the reply of the job's owner, or none
//	drawing    drawing   Draw: drawTimeout has passed without a reply
type Budget struct {
	Pages    ondisk.Account // in pages
	Bytes    ondisk.Account // in bytes
	reported [6]uint64      // totals of both accounts as last reported to the job's owner
	Drawing  bool           // a draw is in flight
	drawn    int64          // time of the last draw or of its reply
	Granted  int64          // last grant of a URL, or time at which budget for one arrived
	Starved  bool           // some host waits for tokens
	hosts    []string       // some of these hosts
	short    bool           // the last draw of bytes was granted in part
	unleased uint64         // bytes reserved for pending URLs when the last draw found none leased
	Changed  bool           // since the last write
}

// NewBudget returns an empty budget.
func NewBudget() Budget { return Budget{drawn: math.MinInt64 / 2} }

// Bounds are the limits of draws and reservations.
type Bounds struct {
	Pages   uint64 // of the job; 0: no bound
	Bytes   uint64 // as for Pages
	Reserve uint64 // bytes reserved for a URL, if available
	Draw    uint64 // most pages of one draw
}

// Demand is the demand of a job on its budget.
type Demand struct {
	Bounds          // limits
	Waiting   int64 // URLs pending here
	Out       int64 // leased URLs
	Grants    bool  // the state of the job permits grants
	Exhausted bool  // the whole budget is known to be used up
}

// Bounded reports whether the grants of the job need a reservation.
func Bounded(spec *job.Spec) bool { return spec.Budgeted() || spec.MaxPagesPerHost > 0 }

// Least returns the minimum of bytes for a grant: with less, the last pages of a job would only be
// found too large. A truncated body uses as much, so few such requests exhaust the rest, and yet
// one large file does not end a job.
func (l *Bounds) Least() uint64 { return max(min(l.Reserve, l.Bytes/4)/16, 1) }

// Affords reports whether a URL may be granted now.
func (b *Budget) Affords(l Bounds) bool {
	return (l.Pages == 0 || b.Pages.Free() > 0) && (l.Bytes == 0 || b.Bytes.Free() >= b.enough(l))
}

// enough returns the bytes needed for a grant: less than a reserve only for the job's last bytes.
// Bytes reserved for leased URLs are not used yet; most become free again.
func (b *Budget) enough(l Bounds) uint64 {
	if b.short && b.Bytes.Bound <= b.unleased {
		return l.Least()
	}
	return max(min(l.Reserve, l.Bytes), 1)
}

// Starve records that a host waits for tokens.
func (b *Budget) Starve(host string) {
	if b.Starved = true; len(b.hosts) < wire.MaxDrawHosts && !slices.Contains(b.hosts, host) {
		b.hosts = append(b.hosts, host)
	}
}

// Promise reserves tokens for a URL, and returns the number of bytes.
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

// Settle ends the reservation of a page, if pages are bounded, and of bytes: the fetched page and
// the bytes read are used, and the rest is free again.
func (b *Budget) Settle(bounded bool, promised, pages, size uint64) {
	if bounded {
		b.Pages.Bound -= min(1, b.Pages.Bound)
		b.Pages.Used += pages
	}
	b.Bytes.Bound -= promised
	b.Bytes.Used += min(size, promised)
	b.Changed = true
}

// Cede books reservations as used; another peer will learn the outcomes.
func (b *Budget) Cede(pages, bytes uint64) {
	b.Pages.Spend(pages)
	b.Bytes.Spend(bytes)
	b.Changed = true
}

func (b *Budget) totals() [6]uint64 {
	return [6]uint64{b.Pages.Drawn, b.Pages.Returned, b.Pages.Used, b.Bytes.Drawn, b.Bytes.Returned, b.Bytes.Used}
}

func (b *Budget) free() uint64 { return b.Pages.Free() + b.Bytes.Free() }

// Draw returns the next request to the job's owner: tokens needed, returned and used.
func (b *Budget) Draw(d Demand, now int64) *wire.Draw {
	m := &wire.Draw{}
	b.unleased = 0
	if d.Out == 0 {
		b.unleased = b.Bytes.Bound
	}
	if b.Starved && !d.Exhausted {
		if d.Out == 0 {
			// Nothing is granted any more; held tokens of one budget must not keep another peer from using
			// the other.
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
	if m.GetPages() > 0 || m.GetBytes() > 0 {
		m.Host = b.hosts
	}
	if d.Bytes > 0 {
		m.MinBytes = d.Least()
	}
	m.ReturnPages, m.DrawnPages, m.UsedPages = b.Pages.Returned, b.Pages.Drawn, b.Pages.Used
	m.ReturnBytes, m.DrawnBytes, m.UsedBytes = b.Bytes.Returned, b.Bytes.Drawn, b.Bytes.Used
	b.Drawing, b.drawn = true, now
	return m
}

// giveBack returns tokens that this peer does not need.
func (b *Budget) giveBack() {
	for _, a := range []*ondisk.Account{&b.Pages, &b.Bytes} {
		if n := a.Free(); n > 0 {
			a.Returned += n
			b.Changed = true
		}
	}
}

// DrawAt returns the time of the next draw; never if there is nothing to report.
func (b *Budget) DrawAt(d Demand) int64 {
	switch {
	case b.Drawing:
		return b.drawn + drawTimeout
	case b.Starved && !d.Exhausted && d.Grants && (b.Pages.Used != b.reported[2] || b.Bytes.Used != b.reported[5]):
		return b.drawn + usedEvery
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

// Answered applies the reply to a draw, nil if none, and reports whether it has any content.
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
		b.drawn = now - askEvery // if this is not enough, the next draw follows at once
		b.Changed = true
	}
	b.Starved, b.hosts = false, nil
	return true
}
