package hosts

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
)

const (
	// restAfter nobody was found for a host, or found nothing to do, it is left alone for so long.
	restAfter = 500
	// maxExcluded workers that did not take a host, then its owner does.
	maxExcluded = 3
	// leastPlacing hosts are placed at a time even while nobody seems to have room.
	leastPlacing = 32
)

// Agenda is when something is to be done for hosts, and which of them wait for their turn.
type Agenda struct {
	*Step
	jobs     *JobTable
	domains  *Domains
	rests    *Rests
	Wakes    wakes
	Searches Searches
	Purges   purges
	moved    []*Host // of which something has changed since they were scheduled
}

// MayBePlaced says whether a worker is to be looked for now.
func (a *Agenda) MayBePlaced(h *Host) bool {
	return h.Search.State == SearchIdle && a.placeAt(h) <= a.Now
}

// Changed notes that something of a host is not as it was: it is scheduled before the step is over.
func (a *Agenda) Changed(h *Host) {
	if !h.moved {
		h.moved = true
		a.moved = append(a.moved, h)
	}
}

// Settle schedules the hosts that have changed. It is the one place that does.
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

// schedule sets when a host is evaluated next.
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
	a.rests.note(h)
}

// JobAt is the earliest time at which a job may give URLs of a host; never if only something else
// can change that.
func (a *Agenda) JobAt(h *Host, hj *Job) int64 {
	at := hj.NextDue()
	if hj.Tally.Ready() > 0 {
		at = 0
	}
	js := hj.State
	if at == Never || !a.jobs.Knows(js) || !js.State.Grants() || !a.domains.admitted(h, hj) {
		return Never
	}
	if _, dead := a.Fate(h, hj); dead || hj.PagesLeft() <= 0 && hj.Tally.PromisedHere() == 0 || a.RequestsLeft(hj) <= 0 {
		return Never
	}
	if at <= a.Now && hj.Tally.PromisedHere() == 0 && !a.jobs.Affords(js) {
		js.Budget.Starved = true // what is due later draws then
		return Never
	}
	return at
}

// URLsAt is the earliest time at which there is a URL of a host to grant.
func (a *Agenda) URLsAt(h *Host) int64 {
	at := Never
	for _, hj := range h.Jobs {
		at = min(at, a.JobAt(h, hj))
	}
	return at
}

// placeAt is when a worker is to be looked for, for a host without.
func (a *Agenda) placeAt(h *Host) int64 {
	if h.Lease != nil || h.Frozen > 0 || h.purging {
		return Never
	}
	at := a.URLsAt(h)
	if at == Never || !a.Ring.Mine(h.Key) || !a.Cfg.Settled(h.Key) {
		return Never
	}
	polite := max(a.PoliteAt(h), h.Rec.BackoffUntil) - a.Cfg.PlaceAhead.Milliseconds()
	return max(at, h.bar, h.Search.rest, polite)
}

// Fate is the outcome that all pending URLs of a job on a host get without being tried, if there is
// one.
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
	case c.Admission == domain.Stale || a.domains.Late(h, hj):
		return link.OutcomeTrap, true
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

// checkPurge puts a host on the list of those with URLs to purge, or says when it is to be looked
// at again.
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
			again = h.bar // a report may be on its way, for which there must be budget
			continue
		}
		a.Purges.add(h)
	}
	return again
}
