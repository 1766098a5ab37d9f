package dashboard

import (
	"math"
	"time"
)

// The two spans that charts show, and how fine each is kept.
const (
	fineStep   = time.Second
	fineSpan   = 10 * time.Minute
	coarseStep = time.Minute
	coarseSpan = 24 * time.Hour
)

// patience is how long between two samples what happened is still spread evenly over the time;
// longer is shown as a gap, since the peer was stopped.
const patience = 5 * time.Second

// point is what the charts show of one moment; rates are per second.
type point struct {
	Pages, Duplicates, Sites, Peers, Queue, Cap float64
}

func (p *point) add(q *point) {
	p.Pages += q.Pages
	p.Duplicates += q.Duplicates
	p.Sites += q.Sites
	p.Peers += q.Peers
	p.Queue += q.Queue
	p.Cap += q.Cap
}

func (p *point) scale(f float64) {
	p.Pages, p.Duplicates, p.Sites, p.Peers, p.Queue, p.Cap = f*p.Pages, f*p.Duplicates, f*p.Sites, f*p.Peers, f*p.Queue, f*p.Cap
}

// history keeps how the gauges went: the last ten minutes by the second, the last day by the
// minute. It takes time as an argument and is not safe for concurrent use.
type history struct {
	fine, coarse track
	last         Gauges
	at           time.Time // of the last sample, zero before the first
}

func newHistory() *history {
	return &history{fine: newTrack(fineStep, fineSpan), coarse: newTrack(coarseStep, coarseSpan)}
}

// add notes a sample. One from before the last, or as late, is only the base of the next.
func (h *history) add(now time.Time, g Gauges) {
	defer func() { h.last, h.at = g, now }()
	gap := now.Sub(h.at).Seconds()
	if h.at.IsZero() || gap <= 0 || gap > patience.Seconds() {
		return
	}
	rate := func(was, is int64) float64 { return float64(max(is-was, 0)) / gap }
	p := point{
		Pages: rate(h.last.Pages, g.Pages), Duplicates: rate(h.last.Duplicates, g.Duplicates),
		Sites: rate(h.last.SiteBytes, g.SiteBytes), Peers: rate(h.last.PeerBytes, g.PeerBytes),
		Queue: float64(g.Queue), Cap: float64(g.CapBps),
	}
	h.fine.add(h.at, now, &p)
	h.coarse.add(h.at, now, &p)
}

// track keeps the means of equal spans of time, the latest so many.
type track struct {
	step  time.Duration
	slots []slot
	head  int64 // the index in time of the newest slot
}

type slot struct {
	sum point
	n   float64
}

func newTrack(step, span time.Duration) track {
	return track{step: step, slots: make([]slot, span/step)}
}

func (t *track) slot(index int64) *slot { return &t.slots[index%int64(len(t.slots))] }

// add notes p for the time since the sample before: for the slot of now, and for those in between,
// which no sample met.
func (t *track) add(since, now time.Time, p *point) {
	to := now.UnixNano() / int64(t.step)
	from := max(min(since.UnixNano()/int64(t.step)+1, to), to-int64(len(t.slots))+1)
	if to < t.head { // the clock was set back
		clear(t.slots)
		t.head = 0
	}
	for i := max(t.head+1, to-int64(len(t.slots))+1); i <= to; i++ {
		*t.slot(i) = slot{}
	}
	t.head = to
	for i := from; i <= to; i++ {
		s := t.slot(i)
		s.sum.add(p)
		s.n++
	}
}

// known is how far back the oldest known figure lies, 0 if nothing is known.
func (t *track) known(now time.Time) time.Duration {
	end := now.UnixNano() / int64(t.step)
	for i := max(end, t.head) - int64(len(t.slots)) + 1; i <= t.head; i++ {
		if i >= 0 && t.slot(i).n > 0 && i > t.head-int64(len(t.slots)) {
			return time.Duration(end-i) * t.step
		}
	}
	return 0
}

// means returns the last n*per slots before now as n means, oldest first. The slot of now itself is
// left out, since it is not over. Where nothing is known the figures are NaN.
func (t *track) means(now time.Time, n, per int) []point {
	out := make([]point, n)
	end := now.UnixNano() / int64(t.step)
	end -= end % int64(per) // so that a slot stays with its neighbours as time goes on, and the curve does not quiver
	for i := range out {
		var sum slot
		for j := range per {
			index := end - int64((n-i)*per) + int64(j)
			if index > t.head || index <= t.head-int64(len(t.slots)) {
				continue
			}
			s := t.slot(index)
			sum.sum.add(&s.sum)
			sum.n += s.n
		}
		f := math.NaN()
		if sum.n > 0 {
			f = 1 / sum.n
		}
		sum.sum.scale(f)
		out[i] = sum.sum
	}
	return out
}
