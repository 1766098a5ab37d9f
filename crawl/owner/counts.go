package owner

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// books is the read-only view of an owner's state.
type books struct{ parts }

// Counts returns the counters of a job, zero for an unknown job. They are exact between steps and
// durable as of the last Wait.
func (bk *books) Counts(id job.ID) hosts.Counts {
	js := bk.jobs.ByID[id]
	if js == nil {
		js = &hosts.JobState{Job: new(ledger.Job)}
		c, _ := bk.jobs.InStore(id)
		js.Load(c)
	}
	c := js.Counts()
	if c.Waiting > 0 {
		due := hosts.Never
		bk.rests.Each(func(e *hosts.Rester) {
			e.Each(func(of *hosts.JobState, w *hosts.JobWait) {
				if of == js {
					due = min(due, w.Due)
				}
			})
		})
		if due != hosts.Never {
			c.NextDue = time.UnixMilli(due)
		}
	}
	return c
}

// AllCounts returns the counters of all jobs known here. It visits each host with waiting URLs
// once.
func (bk *books) AllCounts() map[job.ID]hosts.Counts {
	all := make(map[job.ID]hosts.Counts, len(bk.jobs.Order))
	waiting := false
	if bk.jobs.Some {
		bk.jobs.Each(func(id job.ID, c ondisk.Counters) { all[id] = hosts.CountsOf(&c, 0) })
	}
	for _, js := range bk.jobs.Order {
		all[js.ID] = js.Counts()
		waiting = waiting || js.Delayed() > 0
	}
	if !waiting {
		return all
	}
	due := make(map[*hosts.JobState]int64)
	bk.rests.Each(func(e *hosts.Rester) {
		e.Each(func(js *hosts.JobState, w *hosts.JobWait) {
			if had, ok := due[js]; w.Due != hosts.Never && (!ok || w.Due < had) {
				due[js] = w.Due
			}
		})
	})
	for js, at := range due {
		if c := all[js.ID]; c.Waiting > 0 {
			c.NextDue = time.UnixMilli(at)
			all[js.ID] = c
		}
	}
	return all
}

// JobIDs returns the IDs of the jobs known here.
func (bk *books) JobIDs() []job.ID {
	ids := make([]job.ID, 0, len(bk.jobs.Order))
	for _, js := range bk.jobs.Order {
		ids = append(ids, js.ID)
	}
	if bk.jobs.Some {
		bk.jobs.Each(func(id job.ID, _ ondisk.Counters) {
			if bk.jobs.ByID[id] == nil {
				ids = append(ids, id)
			}
		})
	}
	return ids
}

// Totals holds the sums over all jobs on this peer.
type Totals struct {
	// As in control.Counters.
	Pages, Duplicates, NoIndex, Redirects, Errors, RobotsDenied, Refetched, Bytes int64
	// As in control.Counters.
	URLsSeen, URLsPending, URLsLeased, URLsWaiting, Outbox int64
	// As in control.Counters.
	HostsOwned, HostsLeased, LeftOut int64
	// Traps counts URLs skipped as traps, OutOfBudget URLs beyond a budget, and LinksCut links beyond
	// the new hosts that a page may contribute.
	Traps, OutOfBudget, LinksCut int64
}

// Totals returns the sums over all jobs.
func (bk *books) Totals() Totals {
	t := Totals{HostsOwned: bk.hosts.Totals.Hosts, HostsLeased: int64(bk.leases.N)}
	for _, js := range append(slices.Clip(bk.jobs.Order), &bk.jobs.Away) {
		c := js.Counts()
		t.Bytes += c.Bytes
		t.Refetched += c.Refetched
		t.LeftOut += c.LeftOut
		t.LinksCut += js.Sums().Cut
		t.URLsSeen += c.Accepted
		t.URLsPending += c.Pending
		t.URLsLeased += c.Leased
		t.URLsWaiting += c.Waiting
		t.Outbox += c.Outbox
		for outcome, n := range c.Outcomes {
			switch link.Outcome(outcome) {
			case link.OutcomeOK:
				t.Pages += n
			case link.OutcomeDuplicate:
				t.Duplicates += n
			case link.OutcomeRedirect:
				t.Redirects += n
			case link.OutcomeRobotsDenied:
				t.RobotsDenied += n
			case link.OutcomeNoIndex:
				t.NoIndex += n
			case link.OutcomeTrap:
				t.Traps += n
			case link.OutcomeOutOfBudget:
				t.OutOfBudget += n
			case link.OutcomeNone, link.OutcomeOutOfScope:
			default:
				t.Errors += n
			}
		}
	}
	return t
}

// Delegated returns the number of leased hosts by worker.
func (bk *books) Delegated() map[string]int {
	m := make(map[string]int)
	for peer, s := range bk.placer.Sessions {
		if len(s.Leases) > 0 {
			m[peer] = len(s.Leases)
		}
	}
	return m
}
