package ledger

import (
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Tally is what is counted of a job on a host, along with the sums of the job.
type Tally struct {
	job        *Job
	c          ondisk.Counters
	out        int64 // URLs at a worker
	outDelayed int64 // of them, those with a delayed record
	outPaid    int64 // of them, those with a promise
}

// Counters are what is written of it.
func (t *Tally) Counters() ondisk.Counters { return t.c }

// Accepted are the URLs of the set.
func (t *Tally) Accepted() int64 { return t.c.Accepted }

// Open are the URLs without an outcome.
func (t *Tally) Open() int64 { return t.c.Open() }

// Out are the URLs at a worker.
func (t *Tally) Out() int64 { return t.out }

// Unleased are the URLs without an outcome that are not out: those that are Ready, and those that
// are Waiting for another try.
func (t *Tally) Unleased() int64 { return t.c.Open() - t.out }

// Ready URLs may be granted now.
func (t *Tally) Ready() int64 { return t.Unleased() - t.Waiting() }

// Waiting URLs wait for another try.
func (t *Tally) Waiting() int64 { return t.c.Delayed - t.outDelayed }

// Requests are those made to the host.
func (t *Tally) Requests() int64 { return t.c.Requests }

// Bytes are those of bodies.
func (t *Tally) Bytes() int64 { return t.c.Bytes }

// Promised are the URLs with a part of the budget.
func (t *Tally) Promised() int64 { return t.c.Promised }

// PromisedHere are those of them that are not out.
func (t *Tally) PromisedHere() int64 { return t.c.Promised - t.outPaid }

// Pages are those fetched, also if only their beginnings were taken.
func (t *Tally) Pages() int64 {
	return t.c.Outcomes[link.OutcomeOK] + t.c.Outcomes[link.OutcomeDuplicate] + t.c.Outcomes[link.OutcomeNoIndex] + t.c.Outcomes[link.OutcomeTooLarge]
}

// both counts on the host and on the peer.
func (t *Tally) both(count func(c *ondisk.Counters)) {
	count(&t.c)
	count(&t.job.sums)
}

// waits counts URLs that wait for another try, or do so no more.
func (t *Tally) waits(n int64) { t.both(func(c *ondisk.Counters) { c.Delayed += n }) }

// promises counts URLs with a part of the budget, or without it again.
func (t *Tally) promises(n int64) { t.both(func(c *ondisk.Counters) { c.Promised += n }) }

// lease counts a URL that is out, or is so no more.
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

// merge takes what another owner has counted and what is not counted anew from its URLs, and says
// whether that is news.
func (t *Tally) merge(in *ondisk.Counters) (news bool) {
	c, s := &t.c, &t.job.sums
	if c.Admission.Before(in.Admission) {
		c.Admission, news = in.Admission, true
	}
	for _, n := range []struct{ have, all, in *int64 }{
		{&c.Refetched, &s.Refetched, &in.Refetched}, {&c.Requests, &s.Requests, &in.Requests}, {&c.Cut, &s.Cut, &in.Cut},
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

// Leave takes it out of the sums, as another owner has the host.
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
}

// marks are the first places where records that are not out may lie: a ready one, and the due time
// of a delayed one, Never if there is none.
type marks struct {
	from    ondisk.Spot
	nextDue int64
}

// nowhere is behind all ready records.
var nowhere = ondisk.Spot{Rank: 1<<32 - 1}

// lower makes sure that the next walk looks at a place.
func (m *marks) lower(at ondisk.Spot) {
	if at.Due > 0 {
		m.nextDue = min(m.nextDue, at.Due)
	} else if at.Before(m.from) {
		m.from = at
	}
}

const (
	// openBase is the room for a host's URLs that wait, in bytes, and openPage what each of its
	// pages adds. openRecord is what a record takes beside its URL.
	openBase   = 64 << 20
	openPage   = 64 << 10
	openRecord = 64
)

// room is that for a host's URLs that wait.
type room struct {
	length float64 // mean of the last URLs that were accepted, in bytes; 0: none was
}

// overfull says whether as many URLs wait as have room, and learns how long they are.
func (r *room) overfull(url string, c *ondisk.Counters) bool {
	if r.length == 0 {
		r.length = float64(len(url))
	}
	r.length += (float64(len(url)) - r.length) / 64
	return float64(c.Open())*(r.length+openRecord) > openBase+openPage*float64(c.Outcomes[link.OutcomeOK])
}
