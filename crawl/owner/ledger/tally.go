package ledger

import (
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Tally holds the counters of a job on a host, and updates the sums of the job.
type Tally struct {
	job        *Job
	c          ondisk.Counters
	out        int64 // URLs at a worker
	outDelayed int64 // of them, with a delayed record
	outPaid    int64 // of them, with a reservation
}

// Counters returns the counters as they are written.
func (t *Tally) Counters() ondisk.Counters { return t.c }

// Accepted returns the number of URLs in the set.
func (t *Tally) Accepted() int64 { return t.c.Accepted }

// Open returns the number of URLs without an outcome.
func (t *Tally) Open() int64 { return t.c.Open() }

// Out returns the number of URLs at a worker.
func (t *Tally) Out() int64 { return t.out }

// Unleased returns the number of URLs without an outcome that are not out: the sum of Ready and
// Waiting.
func (t *Tally) Unleased() int64 { return t.c.Open() - t.out }

// Ready returns the number of URLs that may be granted now.
func (t *Tally) Ready() int64 { return t.Unleased() - t.Waiting() }

// Waiting returns the number of URLs that wait for a retry.
func (t *Tally) Waiting() int64 { return t.c.Delayed - t.outDelayed }

// Requests returns the number of requests to the host.
func (t *Tally) Requests() int64 { return t.c.Requests }

// Bytes returns the bytes of bodies.
func (t *Tally) Bytes() int64 { return t.c.Bytes }

// Promised returns the number of URLs with reserved budget.
func (t *Tally) Promised() int64 { return t.c.Promised }

// PromisedHere returns the number of URLs with reserved budget that are not out.
func (t *Tally) PromisedHere() int64 { return t.c.Promised - t.outPaid }

// Pages returns the number of fetched pages, including truncated ones.
func (t *Tally) Pages() int64 {
	return t.c.Outcomes[link.OutcomeOK] + t.c.Outcomes[link.OutcomeDuplicate] + t.c.Outcomes[link.OutcomeNoIndex] + t.c.Outcomes[link.OutcomeTooLarge]
}

// both updates the counters of the host and of the peer.
func (t *Tally) both(count func(c *ondisk.Counters)) {
	count(&t.c)
	count(&t.job.sums)
}

// waits adjusts the number of URLs that wait for a retry.
func (t *Tally) waits(n int64) { t.both(func(c *ondisk.Counters) { c.Delayed += n }) }

// promises adjusts the number of URLs with reserved budget.
func (t *Tally) promises(n int64) { t.both(func(c *ondisk.Counters) { c.Promised += n }) }

// lease adjusts the number of URLs that are out.
func (t *Tally) lease(p *ondisk.Pending, n int64) {
	t.out += n
	t.job.out += n
	if p.Due > 0 {
		t.outDelayed += n
	}
	if p.Promised {
		t.outPaid += n
	}
}

// merge merges counters of another owner that are not recomputed from the URLs, and reports whether
// they differ.
func (t *Tally) merge(in *ondisk.Counters) (news bool) {
	c, s := &t.c, &t.job.sums
	if c.Admission.Before(in.Admission) {
		c.Admission, news = in.Admission, true
	}
	for _, n := range []struct{ have, all, in *int64 }{
		{&c.Refetched, &s.Refetched, &in.Refetched}, {&c.Requests, &s.Requests, &in.Requests}, {&c.Cut, &s.Cut, &in.Cut}, {&c.NotModified, &s.NotModified, &in.NotModified},
	} {
		if more := *n.in - *n.have; more > 0 {
			*n.have += more
			*n.all += more
			news = true
		}
	}
	if in.Trap && !c.Trap || in.Exhausted && !c.Exhausted || in.Rest > c.Rest {
		c.Trap, c.Exhausted, c.Rest, news = c.Trap || in.Trap, c.Exhausted || in.Exhausted, max(c.Rest, in.Rest), true
	}
	return news
}

// Leave subtracts the host from the sums, as another owner has it.
func (t *Tally) Leave() {
	c := &t.job.sums
	c.Accepted -= t.c.Accepted
	for i, n := range t.c.Outcomes {
		c.Outcomes[i] -= n
	}
	c.Delayed -= t.c.Delayed
	c.Promised -= t.c.Promised
	c.Bytes -= t.c.Bytes
	c.LeftOut -= t.c.LeftOut
	c.Refetched -= t.c.Refetched
	c.Requests -= t.c.Requests
	c.Cut -= t.c.Cut
	c.CountVisits(&t.c, -1)
}

// marks are the first positions at which records that are not out may lie: of a ready record, and
// the due time of a delayed one, Never if there is none.
type marks struct {
	from    ondisk.Spot
	nextDue int64
	unsaved int64 // first due time among records that a walk of the store may not see
	visit   int64 // due time of a visit
}

// nowhere is behind all ready records.
var nowhere = ondisk.Spot{Rank: 1<<32 - 1}

// lower makes sure that the next scan includes a position.
func (m *marks) lower(at ondisk.Spot) {
	if at.Due > 0 {
		m.nextDue, m.unsaved = min(m.nextDue, at.Due), min(m.unsaved, at.Due)
	} else if at.Before(m.from) {
		m.from = at
	}
}

const (
	// openBase is the space in bytes for a host's waiting URLs, openPage the addition of each of its
	// pages, and openRecord the overhead of a record.
	openBase   = 64 << 20
	openPage   = 64 << 10
	openRecord = 64
)

// room is the space for a host's waiting URLs.
type room struct {
	length float64 // mean length of recently accepted URLs in bytes; 0: none
}

// overfull reports whether the space for waiting URLs is used up, and updates the mean length.
func (r *room) overfull(url string, c *ondisk.Counters) bool {
	if r.length == 0 {
		r.length = float64(len(url))
	}
	r.length += (float64(len(url)) - r.length) / 64
	return float64(c.Open())*(r.length+openRecord) > openBase+openPage*float64(c.Outcomes[link.OutcomeOK])
}
