package worker

import (
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// governed is a visit that a governor admitted.
type governed struct {
	progress fetch.Progress
	result   bandwidth.Result
}

// SetBandwidth changes the cap that fetches are admitted under, in bytes a second, at once; zero is none, and then nothing is governed. The limiter that holds the cap is not
// the worker's.
func (w *Worker) SetBandwidth(rate int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case rate <= 0:
		w.governor = nil
		clear(w.visits)
	case w.governor != nil:
		w.governor.SetRate(float64(rate))
	default:
		cfg := bandwidth.Config{Rate: float64(rate), MaxDepth: w.cfg.MaxDepth, Fetchers: max(w.allowed, 1), Limited: true}
		governor, err := bandwidth.New(w.cfg.Governor, cfg, w.estimates)
		if err != nil {
			w.log.Error("no governor for this bandwidth", "bandwidth", rate, "err", err)
			return
		}
		w.governor = governor
	}
	w.wakeAll()
}

// Estimates lends the table of what rates servers have, under the worker's mutex: fn must not block.
func (w *Worker) Estimates(fn func(e *bandwidth.Estimates)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(w.estimates)
}

// scoreOf is the place of a URL in the order of scores: smaller depth first, then age.
func scoreOf(it reports.Item) uint64 { return uint64(it.Depth)<<40 | it.Serial&(1<<40-1) }

// pick opens the visit that is next, as the frontier's Next does; under a cap it is the one that the governor admits, by score.
func (w *Worker) pick(now time.Time) (name string, due time.Time) {
	if w.governor == nil {
		return w.frontier.Next(now)
	}
	w.sample(now)
	names, due := w.frontier.Ranked(now, w.cfg.MaxDepth, scoreOf)
	if len(names) == 0 {
		return "", due
	}
	q := candidates{w, names}
	a, ok := w.governor.Admit(now, q)
	if !ok {
		again := now.Add(w.governor.Every())
		if due.IsZero() || again.Before(due) {
			due = again
		}
		return "", due
	}
	c, _ := q.At(a.Depth)
	name = names[a.Depth]
	h := w.hosts[name]
	if h == nil || !w.frontier.Visit(now, name) {
		w.governor.End(now, c.ID, bandwidth.Result{})
		return "", now.Add(w.governor.Every())
	}
	w.stats.admitted.Add(1)
	if a.Depth > 0 {
		w.stats.passed.Add(1)
	}
	if a.Known {
		w.stats.known.Add(1)
	}
	h.governed, h.governedID = &governed{}, c.ID
	w.visits[c.ID] = h.governed
	return name, now
}

// candidates are hosts that may be visited, by score, as a governor sees them.
type candidates struct {
	w     *Worker
	names []string
}

// At implements bandwidth.Queue.
func (c candidates) At(depth int) (bandwidth.Candidate, bool) {
	if depth >= len(c.names) {
		return bandwidth.Candidate{}, false
	}
	it, ok := c.w.frontier.Peek(c.names[depth])
	var server netip.Addr
	if h := c.w.hosts[c.names[depth]]; h != nil && len(h.addrs) > 0 {
		server = h.addrs[0]
	}
	return bandwidth.Candidate{ID: it.Serial, Server: server}, ok
}

// sample tells the governor, once in a while, how far the running exchanges have come.
func (w *Worker) sample(now time.Time) {
	if now.Sub(w.sampled) < w.governor.Every() {
		return
	}
	w.sampled = now
	for id, g := range w.visits {
		p := bandwidth.Progress{Bytes: g.progress.Bytes.Load(), Left: -1, Held: time.Duration(g.progress.Held.Load())}
		if total := g.progress.Total.Load(); total > 0 {
			p.Left = max(total-p.Bytes, 0)
		}
		w.governor.Sample(now, id, p)
	}
}

// ended tells the governor that a visit has ended. Under the worker's mutex.
func (w *Worker) ended(h *host) {
	g := h.governed
	if g == nil {
		return
	}
	if h.governed = nil; w.governor == nil || w.visits[h.governedID] != g {
		return // the cap was lifted meanwhile
	}
	delete(w.visits, h.governedID)
	w.governor.End(time.Now(), h.governedID, g.result)
}
