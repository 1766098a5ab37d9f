package ledger

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/budget"
	"github.com/apoidea/apoidea/crawl/owner/buffer"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Never is the due time of what is not due at all.
const Never = int64(1<<63 - 1)

// Seen is the filter in front of the URL sets, which is to know every URL of them.
type Seen interface {
	Add(set ondisk.SetID, hash uint64) error // puts a hash into a set
}

// Ledger writes the records of URLs through a buffer.
type Ledger struct {
	buf     *buffer.Buffer
	seen    Seen
	bounds  func(*job.Spec) budget.Bounds // what a job's budget is drawn and promised within
	changed []*Account
}

// New returns a ledger that writes through a buffer.
func New(buf *buffer.Buffer, seen Seen, bounds func(*job.Spec) budget.Bounds) *Ledger {
	return &Ledger{buf: buf, seen: seen, bounds: bounds}
}

// Changed calls fn for the accounts that were changed since the last call, each once, in the order
// in which that began.
func (l *Ledger) Changed(fn func(*Account)) {
	for _, a := range l.changed {
		a.listed = false
		fn(a)
	}
	clear(l.changed)
	l.changed = l.changed[:0]
}

// Len is how many accounts were changed since the last call of Changed.
func (l *Ledger) Len() int { return len(l.changed) }

// Job is a job on this peer: the sums over its accounts, and its part of the budget.
type Job struct {
	ID     job.ID
	Spec   *job.Spec // nil while it is not known
	State  job.State // likewise without meaning
	Known  bool      // whether it is
	Budget budget.Budget

	sums ondisk.Counters
	out  int64
}

// Sums are those over all accounts. Exhausted, Outbox and Entries are the peer's alone.
func (j *Job) Sums() ondisk.Counters { return j.sums }

// Open are the URLs without an outcome, Out those of them at workers.
func (j *Job) Open() int64 { return j.sums.Open() }

// Out are the URLs at workers.
func (j *Job) Out() int64 { return j.out }

// Delayed are the URLs that wait for another try.
func (j *Job) Delayed() int64 { return j.sums.Delayed }

// Entries are those of the outbox.
func (j *Job) Entries() int64 { return j.sums.Entries }

// Encode writes the sums.
func (j *Job) Encode() []byte { return j.sums.Encode() }

// Load sets the sums to those of the store.
func (j *Job) Load(c ondisk.Counters) { j.sums = c }

// Exhausted says whether the whole budget is used up.
func (j *Job) Exhausted() bool { return j.sums.Exhausted }

// Exhaust notes that it is.
func (j *Job) Exhaust() { j.sums.Exhausted = true }

// Queued counts entries of the outbox that came or went, with their links.
func (j *Job) Queued(entries, links int64) {
	j.sums.Entries += entries
	j.sums.Outbox += links
}

// Sum takes in what is counted of a job of which nothing waits, or with a negative sign takes it
// out again.
func (j *Job) Sum(c *ondisk.Counters, sign int64) {
	s := &j.sums
	s.Accepted += sign * c.Accepted
	for i, n := range c.Outcomes {
		s.Outcomes[i] += sign * n
	}
	s.Bytes += sign * c.Bytes
	s.Refetched += sign * c.Refetched
	s.LeftOut += sign * c.LeftOut
	s.Cut += sign * c.Cut
}
