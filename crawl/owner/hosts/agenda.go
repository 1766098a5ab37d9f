package hosts

import (
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

const (
	// restAfter is the pause in ms after a search without a worker, or a lease without work.
	restAfter = 500
	// maxExcluded is the number of workers that may decline a host before its owner takes it.
	maxExcluded = 3
	// leastPlacing is the minimum of concurrent searches, even while all workers seem to be full.
	leastPlacing = 32
)

// Agenda schedules hosts, and holds the queue of those that wait for a worker.
type Agenda struct {
	*Step
	jobs     *JobTable
	domains  *Domains
	Wakes    wakes
	Searches Searches
	Purges   purges
	moved    []*Host // changed since they were scheduled
}

// MayBePlaced reports whether the host needs a search for a worker now.
func (a *Agenda) MayBePlaced(h *Host) bool {
	return h.Search.State == SearchIdle && a.placeAt(h) <= a.Now
}

// Changed marks a changed host to be scheduled before the end of the step.
func (a *Agenda) Changed(h *Host) {
	if !h.moved {
		h.moved = true
		a.moved = append(a.moved, h)
	}
}

// Settle schedules the changed hosts. Hosts are scheduled here only.
func (a *Agenda) Settle() {
	for _, h := range a.moved {
		h.moved = false
		if h.Kept() {
			a.schedule(h)
		}
	}
	clear(a.moved)
	a.moved = a.moved[:0]
}

// schedule sets the time of a host's next evaluation.
func (a *Agenda) schedule(h *Host) {
	purge := min(a.checkPurge(h), a.domains.ask(h))
	var at int64
	switch {
	case h.changesAt() != Never:
		at = h.changesAt()
	case h.Search.State != SearchIdle:
		at = h.Search.Until
	default:
		if at = a.placeAt(h); at <= a.Now {
			a.Searches.Queue.Add(h)
			at = Never
		}
	}
	a.Wakes.set(h, min(at, purge))
}

// JobAt returns the earliest time at which a job may grant URLs of a host; never if only another
// event can change that.
func (a *Agenda) JobAt(h *Host, hj *Job) int64 {
	at := hj.NextDue()
	if hj.Tally.Ready() > 0 {
		at = 0
	}
	js := hj.State
	if at == Never || !a.jobs.Knows(js) || !js.State.Grants() || !a.domains.admitted(h, hj) {
		return Never
	}
	if _, dead := a.Fate(h, hj); dead || h.Rec.OptOut.Held() || hj.PagesLeft() <= 0 && hj.Tally.PromisedHere() == 0 || a.RequestsLeft(hj) <= 0 {
		return Never
	}
	if at <= a.Now && hj.Tally.PromisedHere() == 0 && !a.jobs.Affords(js) {
		js.Budget.Starve(h.Rec.Name) // a draw follows when the URL is due
		return Never
	}
	return at
}

// URLsAt returns the earliest time at which a URL of a host can be granted.
func (a *Agenda) URLsAt(h *Host) int64 {
	at := Never
	for _, hj := range h.Jobs {
		at = min(at, a.JobAt(h, hj), a.VisitsAt(h, hj))
	}
	return at
}

// placeAt returns the time of the search for a worker of an unassigned host.
func (a *Agenda) placeAt(h *Host) int64 {
	if h.Lease != nil || h.Frozen > 0 || h.purging {
		return Never
	}
	at := a.URLsAt(h)
	at = min(at, a.checksAt(h, at))
	if at == Never || !a.Ring.Mine(h.Key) || !a.Cfg.Settled(h.Key) {
		return Never
	}
	polite := max(a.PoliteAt(h), h.Rec.BackoffUntil) - a.Cfg.PlaceAhead.Milliseconds()
	return max(at, h.bar, h.Search.rest, polite)
}

// Fate returns the outcome that all pending URLs of a job on a host get without being tried; false
// if there is none.
func (a *Agenda) Fate(h *Host, hj *Job) (link.Outcome, bool) {
	js := hj.State
	c := hj.Tally.Counters()
	switch {
	case !js.Known:
		return 0, false
	case js.State == job.StateCanceled:
		return link.OutcomeNone, true
	case a.WhyOptedOut(h) != "":
		return link.OutcomeOptedOut, true
	case c.Admission == domain.Crowded || c.Admission == domain.Ported:
		return link.OutcomeOutOfBudget, true
	case c.Trap:
		return link.OutcomeTrap, true
	case c.Down != link.OutcomeNone && a.Now < c.DownUntil:
		return c.Down, true
	case js.Exhausted():
		return link.OutcomeOutOfBudget, true
	case a.Spends(hj) != SpentNothing:
		return link.OutcomeOutOfBudget, true
	case js.Spec.MaxPagesPerHost > 0 && hj.Tally.Promised() == 0 && hj.PagesLeft() <= 0:
		return link.OutcomeOutOfBudget, true
	default:
		return 0, false
	}
}

// checkPurge lists a host with URLs to purge, or returns the time of the next check.
func (a *Agenda) checkPurge(h *Host) (again int64) {
	again = Never
	for _, hj := range h.Jobs {
		if h.purging || h.Frozen > 0 {
			return Never
		}
		if hj.Tally.Ready()+hj.Tally.Waiting() <= 0 {
			continue
		}
		if _, dead := a.Fate(h, hj); !dead {
			continue
		}
		if h.Barred(a.Now) && hj.Tally.PromisedHere() > 0 {
			again = h.bar // a pending report needs budget
			continue
		}
		a.Purges.add(h)
	}
	return again
}

// Rests determines which URLs wait: of hosts in memory on request, and of evicted ones by sums.
type Rests struct {
	*Step
	Away Away
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

// Rest returns the wait of a host in memory, and counts the deferred URLs of its jobs.
func (r *Rests) Rest(h *Host, horizon int64, jobs map[job.ID]PutOff) Rest {
	rest := Rest{until: Never}
	whole := r.RestsUntil(h)
	horizon = HorizonOf(h.Mute(), r.Now, horizon)
	for _, hj := range h.Jobs {
		urls, at := hj.waits(whole, h.Rec.BackoffUntil > r.Now || whole > horizon)
		rest.add(hj.State, urls, at, r.Now, horizon, jobs)
	}
	return rest
}
