package owner

import (
	"cmp"
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
	c.Job = id.String() // also of an unknown one
	if c.Waiting > 0 {
		due := hosts.Never
		for _, h := range bk.hosts.ByName {
			if hj := h.Job(js); hj != nil {
				due = min(due, hj.NextDue())
			}
		}
		c.NextRetryS = hosts.SecondsUntil(due, bk.Now)
	}
	return c
}

// AllCounts returns the counters of all jobs known here.
func (bk *books) AllCounts() map[job.ID]hosts.Counts {
	all := make(map[job.ID]hosts.Counts, len(bk.jobs.Order))
	if bk.jobs.Some {
		bk.jobs.Each(func(id job.ID, c ondisk.Counters) { all[id] = hosts.CountsOf(id, &c, 0) })
	}
	for _, js := range bk.jobs.Order {
		all[js.ID] = js.Counts()
	}
	for _, h := range bk.hosts.ByName {
		for _, hj := range h.Jobs {
			if hj.NextDue() == hosts.Never {
				continue
			}
			if c := all[hj.State.ID]; c.Waiting > 0 {
				c.NextRetryS = hosts.Sooner(c.NextRetryS, hosts.SecondsUntil(hj.NextDue(), bk.Now))
				all[hj.State.ID] = c
			}
		}
	}
	return all
}

// Totals are the sums over all jobs, of one peer or of the ring. The JSON names are stable.
type Totals struct {
	// Pages counts documents fetched with a 2xx status and new content.
	Pages        int64 `json:"pages"`
	Bytes        int64 `json:"bytes"`         // of bodies fetched
	Duplicates   int64 `json:"duplicates"`    // pages whose content was known
	NoIndex      int64 `json:"noindex"`       // pages marked noindex: not archived
	Redirects    int64 `json:"redirects"`     // redirect responses
	Errors       int64 `json:"errors"`        // URLs that ended in a failure
	RobotsDenied int64 `json:"robots_denied"` // URLs that robots.txt forbids
	// Traps are URLs that were not fetched because of trap detection.
	Traps       int64 `json:"traps"`
	OutOfBudget int64 `json:"out_of_budget"` // URLs beyond a budget
	LinksCut    int64 `json:"links_cut"`     // links to new hosts beyond the limit of a page
	Refetched   int64 `json:"refetched"`     // fetched more than once
	// LinksLeftOut are links of pages beyond the size limits of one page.
	LinksLeftOut int64 `json:"links_left_out"`
	URLsSeen     int64 `json:"urls_seen"`    // accepted into URL sets
	URLsPending  int64 `json:"urls_pending"` // accepted, neither leased nor done
	URLsLeased   int64 `json:"urls_leased"`  // given to workers, not yet reported
	// URLsWaiting are the pending URLs that wait for a retry.
	URLsWaiting int64   `json:"urls_waiting"`
	NextRetryS  float64 `json:"next_retry_s,omitempty"` // seconds until the first of them is due
	// Outbox counts links not yet acknowledged by their owners.
	Outbox      int64 `json:"outbox"`
	Checks      int64 `json:"checks,omitempty"` // pages that another worker is to fetch again, to check a report
	HostsOwned  int64 `json:"hosts_owned"`      // hosts of which a URL was accepted
	HostsLeased int64 `json:"hosts_leased"`     // of them, those with a worker
	// URLsPutOff are the deferred URLs: pending, with the next try later than the wait limit. A crawl
	// in which only these are left has ended for now.
	URLsPutOff  int64 `json:"urls_put_off,omitempty"`
	HostsPutOff int64 `json:"hosts_put_off,omitempty"` // hosts of these URLs
}

// Add sums o into c.
func (c *Totals) Add(o *Totals) {
	sums := func(c *Totals) []*int64 {
		return []*int64{
			&c.Pages, &c.Bytes, &c.Duplicates, &c.NoIndex, &c.Redirects, &c.Errors, &c.RobotsDenied, &c.Traps, &c.OutOfBudget, &c.LinksCut, &c.Refetched,
			&c.LinksLeftOut, &c.Checks, &c.URLsSeen, &c.URLsPending, &c.URLsLeased, &c.URLsWaiting, &c.Outbox, &c.HostsOwned, &c.HostsLeased, &c.URLsPutOff, &c.HostsPutOff,
		}
	}
	to := sums(c)
	for i, n := range sums(o) {
		*to[i] += *n
	}
	c.NextRetryS = hosts.Sooner(c.NextRetryS, o.NextRetryS)
}

// Outstanding returns the unfinished work: a crawl is idle when it is zero on the whole ring.
func (c *Totals) Outstanding() int64 { return c.URLsPending + c.URLsLeased + c.Outbox + c.Checks }

// Due returns the unfinished work that is not deferred: a wait for the end of a crawl ends when it
// is zero on the whole ring.
func (c *Totals) Due() int64 { return c.Outstanding() - min(c.URLsPutOff, c.URLsPending) }

// AddJob adds the counts of a job.
func (c *Totals) AddJob(j *hosts.Counts) {
	c.Bytes += j.Bytes
	c.LinksLeftOut += j.LinksLeftOut
	c.URLsSeen += j.Accepted
	c.URLsPending += j.Pending
	c.URLsLeased += j.Leased
	c.URLsWaiting += j.Waiting
	c.Outbox += j.Outbox
	c.Checks += j.Checks
	c.URLsPutOff += j.PutOff
	c.HostsPutOff += j.PutOffHosts
	c.NextRetryS = hosts.Sooner(c.NextRetryS, j.NextRetryS)
	for outcome, n := range j.Outcomes {
		switch outcome {
		case "ok":
			c.Pages += n
		case "duplicate":
			c.Duplicates += n
		case "redirect":
			c.Redirects += n
		case "robots_denied":
			c.RobotsDenied += n
		case "noindex":
			c.NoIndex += n
		case "trap":
			c.Traps += n
		case "out_of_budget":
			c.OutOfBudget += n
		case "none", "out_of_scope":
		default:
			c.Errors += n
		}
	}
}

// Totals returns the sums over all jobs.
func (bk *books) Totals() Totals {
	t := Totals{HostsOwned: bk.hosts.Totals.Hosts, HostsLeased: int64(bk.leases.N)}
	for _, js := range append(slices.Clip(bk.jobs.Order), &bk.jobs.Away) {
		counts, sums := js.Counts(), js.Sums()
		t.AddJob(&counts)
		t.Refetched += sums.Refetched
		t.LinksCut += sums.Cut
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

// Waits returns the hosts in backoff by outcome, and for each job the number of URLs deferred
// beyond the horizon.
func (bk *books) Waits(horizon time.Time) ([]hosts.Wait, map[job.ID]hosts.PutOff) {
	byOutcome := make(map[link.Outcome]*hosts.Wait)
	jobs := make(map[job.ID]hosts.PutOff)
	for _, h := range bk.hosts.ByName {
		if rest := bk.rests.Rest(h, horizon.UnixMilli(), jobs); rest.URLs > 0 {
			hosts.WaitOf(byOutcome, h.Rec.FailOutcome).Add(h, &rest, bk.Now)
		}
	}
	bk.rests.Away.Waits(bk.Now, horizon.UnixMilli(), byOutcome, jobs)
	list := make([]hosts.Wait, 0, len(byOutcome))
	for _, w := range byOutcome {
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b hosts.Wait) int {
		return cmp.Or(cmp.Compare(b.PutOff, a.PutOff), cmp.Compare(a.Reason, b.Reason))
	})
	return list, jobs
}
