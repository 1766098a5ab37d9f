package dashboard

import (
	"math"
	"time"
)

// The charts show the last ten minutes, in slots of three seconds.
const (
	slotTime  = 3 * time.Second
	slotCount = 200
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

// history stores the means of the gauges in the latest time slots. It takes time as an argument and
// is not safe for concurrent use.
type history struct {
	slots [slotCount]slot
	head  int64 // the index in time of the newest slot
	last  Gauges
	at    time.Time // of the last sample, zero before the first
}

type slot struct {
	sum point
	n   float64
}

func (h *history) slot(index int64) *slot { return &h.slots[index%slotCount] }

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
	h.record(now, &p)
}

// record adds p to the slots between the last sample and now, the slot of now included.
func (h *history) record(now time.Time, p *point) {
	to := now.UnixNano() / int64(slotTime)
	if to < h.head { // the clock was set back
		clear(h.slots[:])
		h.head = 0
	}
	for i := max(h.head+1, to-slotCount+1); i <= to; i++ {
		*h.slot(i) = slot{}
	}
	h.head = to
	for i := min(h.at.UnixNano()/int64(slotTime)+1, to); i <= to; i++ {
		s := h.slot(i)
		s.sum.add(p)
		s.n++
	}
}

// means returns the means of the last slotCount-1 complete slots before now, oldest first. Missing
// values are NaN.
func (h *history) means(now time.Time) []point {
	out := make([]point, slotCount-1)
	end := now.UnixNano() / int64(slotTime)
	for i := range out {
		index, f := end-int64(len(out)-i), math.NaN()
		var sum point
		if s := h.slot(index); index > h.head-slotCount && index <= h.head && s.n > 0 {
			sum, f = s.sum, 1/s.n
		}
		sum.scale(f)
		out[i] = sum
	}
	return out
}
