package owner

import (
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Counts are the books of one job on this peer. Accepted and Done only grow; Accepted = Pending +
// Leased + Done at any moment.
type Counts struct {
	Accepted, Done int64 // URLs in the URL sets, and those of them with an outcome
	// Pending URLs are not out; Waiting of them wait for another try, the first of those of the
	// hosts in memory at NextDue (zero if none).
	Pending, Waiting int64
	NextDue          time.Time // zero: none waits
	Leased           int64     // out at workers
	// Outbox counts the links of pages of which some have not been acknowledged by their owners.
	Outbox    int64
	Outcomes  [link.Outcomes]int64 // URLs that are done
	Bytes     int64                // of bodies fetched
	Refetched int64                // fetched more than once
	// LeftOut are links of pages beyond the bounds of what is taken of one.
	LeftOut int64
}

// Outstanding is the work that is not finished.
func (c *Counts) Outstanding() int64 { return c.Pending + c.Leased + c.Outbox }

// countsOf are the books that counters come to, with so many URLs at workers.
func countsOf(of *ondisk.Counters, out int64) Counts {
	c := Counts{
		Accepted: of.Accepted, Done: of.Done(), Waiting: of.Delayed, Leased: out, Outbox: of.Outbox,
		Outcomes: of.Outcomes, Bytes: of.Bytes, Refetched: of.Refetched, LeftOut: of.LeftOut,
	}
	c.Pending = c.Accepted - c.Done - c.Leased
	return c
}

func (js *jobState) counts() Counts {
	c := js.Sums()
	return countsOf(&c, js.Out())
}

// books are what an owner tells of itself: all of it reads, and nothing changes.
type books struct{ parts }

// Counts returns the books of a job; zero for one of which nothing was met. Exact between steps,
// and durable as of the last Wait.
func (bk *books) Counts(id job.ID) Counts {
	js := bk.jobs.byID[id]
	if js == nil {
		js = &jobState{Job: new(ledger.Job)}
		c, _ := bk.jobs.inStore(id)
		js.Load(c)
	}
	c := js.counts()
	if c.Waiting > 0 {
		due := never
		bk.rests.each(func(e *rester) {
			e.each(func(of *jobState, w *wait) {
				if of == js {
					due = min(due, w.due)
				}
			})
		})
		if due != never {
			c.NextDue = time.UnixMilli(due)
		}
	}
	return c
}

// AllCounts returns the books of all jobs of which something was met, with one look at each host of
// which something waits for all of them.
func (bk *books) AllCounts() map[job.ID]Counts {
	all := make(map[job.ID]Counts, len(bk.jobs.order))
	waiting := false
	if bk.jobs.some {
		bk.jobs.each(func(id job.ID, c ondisk.Counters) { all[id] = countsOf(&c, 0) })
	}
	for _, js := range bk.jobs.order {
		all[js.ID] = js.counts()
		waiting = waiting || js.Delayed() > 0
	}
	if !waiting {
		return all
	}
	due := make(map[*jobState]int64)
	bk.rests.each(func(e *rester) {
		e.each(func(js *jobState, w *wait) {
			if had, ok := due[js]; w.due != never && (!ok || w.due < had) {
				due[js] = w.due
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

// JobIDs lists the jobs of which something was met.
func (bk *books) JobIDs() []job.ID {
	ids := make([]job.ID, 0, len(bk.jobs.order))
	for _, js := range bk.jobs.order {
		ids = append(ids, js.ID)
	}
	if bk.jobs.some {
		bk.jobs.each(func(id job.ID, _ ondisk.Counters) {
			if bk.jobs.byID[id] == nil {
				ids = append(ids, id)
			}
		})
	}
	return ids
}

// Totals are the sums over all jobs on this peer, as status shows them.
type Totals struct {
	// As in control.Counters.
	Pages, Duplicates, Redirects, Errors, RobotsDenied, Refetched, Bytes int64
	// As in control.Counters.
	URLsSeen, URLsPending, URLsLeased, URLsWaiting, Outbox int64
	// As in control.Counters.
	HostsOwned, HostsLeased, LeftOut int64
	// Traps are URLs that were left, as their sites bring nothing new any more, OutOfBudget those
	// beyond a budget; LinksCut are links to more new hosts than a page may bring.
	Traps, OutOfBudget, LinksCut int64
}

// Totals returns the sums over all jobs.
func (bk *books) Totals() Totals {
	t := Totals{HostsOwned: bk.hosts.totals.Hosts, HostsLeased: int64(bk.leases.n)}
	for _, js := range append(slices.Clip(bk.jobs.order), &bk.jobs.away) {
		c := js.counts()
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

// Delegated counts, for each worker, the hosts it has a lease on.
func (bk *books) Delegated() map[string]int {
	m := make(map[string]int)
	for peer, s := range bk.placer.sessions {
		if len(s.leases) > 0 {
			m[peer] = len(s.leases)
		}
	}
	return m
}
