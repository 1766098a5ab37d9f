package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// Rester is a host in memory of which something may wait for a time, with all that decides about
// it: each status asks all of them, of which there may be as many as memory has room for hosts, so
// they lie beside each other.
type Rester struct {
	H       *Host
	Whole   int64 // until when nothing at all of the host is fetched
	Backoff int64 // until when it is left alone after a failure, or by its own wish
	Outcome link.Outcome
	Mute    bool // nobody could be reached there twice in a row, and nothing was ever heard of it
	// js is its job, wait what that waits for; nil: it has several, or none.
	js   *JobState
	wait JobWait
}

// Rests knows of which hosts something waits: each of those in memory, and sums of the others.
type Rests struct {
	*Step
	List []Rester
	Away Away
}

// note notes what waits of a host. It is called after everything that may change that.
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

// mutePatience is how long a crawl that is about to end waits for a host that is mute: it may never
// have been there. Its URLs stay, for whoever goes on. A patience of muteBelow or more waits for
// such hosts as well.
const (
	mutePatience = 15 * time.Second
	muteBelow    = 24 * time.Hour
)

// HorizonOf is until when, in ms, a next try at a host is waited for, where a patience says
// horizon.
func HorizonOf(mute bool, now, horizon int64) int64 {
	if mute && horizon < now+muteBelow.Milliseconds() {
		return min(horizon, now+mutePatience.Milliseconds())
	}
	return horizon
}

// forget takes a host out of those of which something may wait.
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

// Each calls fn for the hosts of which something may wait, and forgets those that have rested.
func (r *Rests) Each(fn func(e *Rester)) {
	for i := 0; i < len(r.List); {
		e := &r.List[i]
		if e.Whole <= r.Now && (e.js == nil || e.wait.Due == Never && e.wait.waiting == 0) {
			h := e.H
			if r.note(h); h.Rester == 0 {
				continue // another is in its place
			}
		}
		fn(e)
		i++
	}
}

// Rest says what waits of a host, and counts what is put off for its jobs.
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
