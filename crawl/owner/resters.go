package owner

import (
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

// rester is a host in memory of which something may wait for a time, with all that decides about
// it: each status asks all of them, of which there may be as many as memory has room for hosts, so
// they lie beside each other.
type rester struct {
	h       *host
	whole   int64 // until when nothing at all of the host is fetched
	backoff int64 // until when it is left alone after a failure, or by its own wish
	outcome link.Outcome
	mute    bool // nobody could be reached there twice in a row, and nothing was ever heard of it
	// js is its job, wait what that waits for; nil: it has several, or none.
	js   *jobState
	wait wait
}

// rests knows of which hosts something waits: each of those in memory, and sums of the others.
type rests struct {
	*step
	list []rester
	away away
}

// note notes what waits of a host. It is called after everything that may change that.
func (r *rests) note(h *host) {
	whole := r.restsUntil(h)
	waits := whole > r.now
	for _, hj := range h.jobs {
		waits = waits || hj.NextDue() != never || hj.Tally.Waiting() > 0
	}
	if !waits || !h.kept() {
		r.forget(h)
		return
	}
	if h.rester == 0 {
		r.list = append(r.list, rester{})
		h.rester = len(r.list)
	}
	e := &r.list[h.rester-1]
	*e = rester{h: h, whole: whole, backoff: h.rec.BackoffUntil, outcome: h.rec.FailOutcome, mute: h.mute()}
	if len(h.jobs) == 1 {
		e.js, e.wait = h.jobs[0].state, h.jobs[0].wait()
	}
}

// mutePatience is how long a crawl that is about to end waits for a host that is mute: it may never
// have been there. Its URLs stay, for whoever goes on. A patience of muteBelow or more waits for
// such hosts as well.
const (
	mutePatience = 15 * time.Second
	muteBelow    = 24 * time.Hour
)

// horizonOf is until when, in ms, a next try at a host is waited for, where a patience says
// horizon.
func horizonOf(mute bool, now, horizon int64) int64 {
	if mute && horizon < now+muteBelow.Milliseconds() {
		return min(horizon, now+mutePatience.Milliseconds())
	}
	return horizon
}

// Horizon is until when the next try at such a host is waited for, where a patience says horizon.
func (d *HostDetail) Horizon(now, horizon time.Time) time.Time {
	return time.UnixMilli(horizonOf(d.Mute, now.UnixMilli(), horizon.UnixMilli()))
}

// Horizon is that of its host.
func (f *Fate) Horizon(now, horizon time.Time) time.Time {
	return time.UnixMilli(horizonOf(f.HostMute, now.UnixMilli(), horizon.UnixMilli()))
}

// mute says whether nobody could be reached at a host twice in a row, and no URL of it has an
// outcome.
func (h *host) mute() bool {
	if h.rec.FailOutcome != link.OutcomeConnect || h.rec.Fails < 2 {
		return false
	}
	for _, hj := range h.jobs {
		if hj.Tally.Accepted() > hj.Tally.Open() {
			return false
		}
	}
	return true
}

// forget takes a host out of those of which something may wait.
func (r *rests) forget(h *host) {
	i := h.rester - 1
	if i < 0 {
		return
	}
	last := len(r.list) - 1
	r.list[i] = r.list[last]
	r.list[i].h.rester = i + 1
	r.list[last] = rester{}
	r.list, h.rester = r.list[:last], 0
}

// each calls fn for the hosts of which something may wait, and forgets those that have rested.
func (r *rests) each(fn func(e *rester)) {
	for i := 0; i < len(r.list); {
		e := &r.list[i]
		if e.whole <= r.now && (e.js == nil || e.wait.due == never && e.wait.waiting == 0) {
			h := e.h
			if r.note(h); h.rester == 0 {
				continue // another is in its place
			}
		}
		fn(e)
		i++
	}
}

// rest says what waits of a host, and counts what is put off for its jobs.
func (e *rester) rest(now, horizon int64, jobs map[job.ID]PutOff) rest {
	r := rest{outcome: e.outcome, until: never}
	horizon = horizonOf(e.mute, now, horizon)
	rests := e.backoff > now || e.whole > horizon
	e.each(func(js *jobState, w *wait) {
		urls, at := w.until(e.whole, rests)
		r.add(js, urls, at, now, horizon, jobs)
	})
	return r
}

// each calls fn for the jobs of a host.
func (e *rester) each(fn func(js *jobState, w *wait)) {
	if e.js != nil {
		fn(e.js, &e.wait)
		return
	}
	for _, hj := range e.h.jobs {
		w := hj.wait()
		fn(hj.state, &w)
	}
}
