package dashboard

import (
	"math"
	"time"
)

// The two spans of the charts and their resolutions.
const (
	fineStep   = time.Second
	fineSpan   = 10 * time.Minute
	coarseStep = time.Minute
	coarseSpan = 24 * time.Hour
)

// patience is the maximum interval of two samples that is interpolated; a longer one is shown as a
// gap, because the process was stopped.
const patience = 5 * time.Second

// point is the data of the charts at one moment; rates are per second.
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

// history stores the gauges of the last ten minutes by second and of the last day by minute. It
// takes time as an argument and is not safe for concurrent use.
type history struct {
	fine, coarse track
	last         Gauges
	at           time.Time // of the last sample, zero before the first
}

func newHistory() *history {
	return &history{fine: newTrack(fineStep, fineSpan), coarse: newTrack(coarseStep, coarseSpan)}
}

// add records a sample. One that is not later than the last only becomes the base of the next.
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

// track stores the means of the latest equal time slots.
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

// add records p for the time since the previous sample: in the slot of now and all slots in
// between.
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

// known returns the age of the oldest value, 0 if there is none.
func (t *track) known(now time.Time) time.Duration {
	end := now.UnixNano() / int64(t.step)
	for i := max(end, t.head) - int64(len(t.slots)) + 1; i <= t.head; i++ {
		if i >= 0 && t.slot(i).n > 0 && i > t.head-int64(len(t.slots)) {
			return time.Duration(end-i) * t.step
		}
	}
	return 0
}

// means returns the last n*per slots before now as n means, oldest first, without the current slot.
// Missing values are NaN.
func (t *track) means(now time.Time, n, per int) []point {
	out := make([]point, n)
	end := now.UnixNano() / int64(t.step)
	end -= end % int64(per) // fixed groups of slots, so that the curve does not flicker
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
