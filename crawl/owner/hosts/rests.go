package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// Rester is a host in memory with URLs that may wait, and the data that decides it. Each status
// query visits all of them, as many as hosts in memory, so they are stored contiguously.
type Rester struct {
	H       *Host
	Whole   int64 // time before which nothing of the host is fetched
	Backoff int64 // end of the backoff after a failure, or at the site's request
	Outcome link.Outcome
	Mute    bool // two connection failures in a row, and no outcome of any URL
	// js is its only job, and wait the wait of that job; nil: several jobs, or none.
	js   *JobState
	wait JobWait
}

// Rests tracks the hosts with waiting URLs: each one in memory, and sums of the others.
type Rests struct {
	*Step
	List []Rester
	Away Away
}

// note updates the wait of a host. It is called after every possible change.
func (r *Rests) note(h *Host) {
	whole := r.RestsUntil(h)
	waits := whole > r.Now
	for _, hj := range h.Jobs {
		waits = waits || hj.NextDue() != Never || hj.Tally.Waiting() > 0
	}
	if !waits || !h.Kept() {
		r.forget(h)
		return
	}
	if h.Rester == 0 {
		r.List = append(r.List, Rester{})
		h.Rester = len(r.List)
	}
	e := &r.List[h.Rester-1]
	*e = Rester{H: h, Whole: whole, Backoff: h.Rec.BackoffUntil, Outcome: h.Rec.FailOutcome, Mute: h.Mute()}
	if len(h.Jobs) == 1 {
		e.js, e.wait = h.Jobs[0].State, h.Jobs[0].wait()
	}
}

// mutePatience is the time that an ending crawl waits for a mute host, which may not exist. Its
// URLs stay pending. A patience of muteBelow or more applies to such hosts as well.
const (
	mutePatience = 15 * time.Second
	muteBelow    = 24 * time.Hour
)

// HorizonOf returns the time in ms until which a next try of a host is waited for, given the
// horizon of a patience.
func HorizonOf(mute bool, now, horizon int64) int64 {
	if mute && horizon < now+muteBelow.Milliseconds() {
		return min(horizon, now+mutePatience.Milliseconds())
	}
	return horizon
}

// forget removes a host that has nothing waiting.
func (r *Rests) forget(h *Host) {
	i := h.Rester - 1
	if i < 0 {
		return
	}
	last := len(r.List) - 1
	r.List[i] = r.List[last]
	r.List[i].H.Rester = i + 1
	r.List[last] = Rester{}
	r.List, h.Rester = r.List[:last], 0
}

// Each calls fn for the hosts with waiting URLs, and removes those whose wait is over.
func (r *Rests) Each(fn func(e *Rester)) {
	for i := 0; i < len(r.List); {
		e := &r.List[i]
		if e.Whole <= r.Now && (e.js == nil || e.wait.Due == Never && e.wait.waiting == 0) {
			h := e.H
			if r.note(h); h.Rester == 0 {
				continue // replaced by another
			}
		}
		fn(e)
		i++
	}
}

// Rest returns the wait of a host, and counts the deferred URLs of its jobs.
func (e *Rester) Rest(now, horizon int64, jobs map[job.ID]PutOff) Rest {
	r := Rest{Outcome: e.Outcome, until: Never}
	horizon = HorizonOf(e.Mute, now, horizon)
	rests := e.Backoff > now || e.Whole > horizon
	e.Each(func(js *JobState, w *JobWait) {
		urls, at := w.until(e.Whole, rests)
		r.add(js, urls, at, now, horizon, jobs)
	})
	return r
}

// Each calls fn for the jobs of a host.
func (e *Rester) Each(fn func(js *JobState, w *JobWait)) {
	if e.js != nil {
		fn(e.js, &e.wait)
		return
	}
	for _, hj := range e.H.Jobs {
		w := hj.wait()
		fn(hj.State, &w)
	}
}
