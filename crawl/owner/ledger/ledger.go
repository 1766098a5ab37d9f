package ledger

import (
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Never is the due time of records that are not due.
const Never = int64(1<<63 - 1)

// Seen is the filter in front of the URL sets, which must contain every URL of them.
type Seen interface {
	Add(set ondisk.SetID, hash uint64) error // adds a hash to a set
}

// Ledger writes the records of URLs through a buffer.
type Ledger struct {
	buf     *ondisk.Buffer
	seen    Seen
	bounds  func(*job.Spec) Bounds // budget limits of a job
	changed []*Account
}

// New returns a ledger that writes through a buffer.
func New(buf *ondisk.Buffer, seen Seen, bounds func(*job.Spec) Bounds) *Ledger {
	return &Ledger{buf: buf, seen: seen, bounds: bounds}
}

// Changed calls fn once for each account changed since the last call, in the order of their first
// changes.
func (l *Ledger) Changed(fn func(*Account)) {
	for _, a := range l.changed {
		a.listed = false
		fn(a)
	}
	clear(l.changed)
	l.changed = l.changed[:0]
}

// Len returns the number of accounts changed since the last call of Changed.
func (l *Ledger) Len() int { return len(l.changed) }

// Job is a job on this peer: the sums over its accounts, and its part of the budget.
type Job struct {
	ID    job.ID
	Spec  *job.Spec // nil if unknown
	State job.State // undefined if unknown
	Known bool      // Spec, State and Refresh are set
	// Refresh is how often its pages are fetched again.
	Refresh job.Refresh
	Budget  Budget

	sums ondisk.Counters
	out  int64
}

// Sums returns the sums over all accounts. Exhausted, Outbox and Entries are the peer's alone.
func (j *Job) Sums() ondisk.Counters { return j.sums }

// Open returns the number of URLs without an outcome.
func (j *Job) Open() int64 { return j.sums.Open() }

// Out returns the number of URLs at workers.
func (j *Job) Out() int64 { return j.out }

// Delayed returns the number of URLs that wait for a retry.
func (j *Job) Delayed() int64 { return j.sums.Delayed }

// Entries returns the number of outbox entries.
func (j *Job) Entries() int64 { return j.sums.Entries }

// Encode returns the encoded sums.
func (j *Job) Encode() []byte { return j.sums.Encode() }

// Load sets the sums to those of the store.
func (j *Job) Load(c ondisk.Counters) { j.sums = c }

// Schedules reports whether all URLs here are scheduled by the job's Refresh.
func (j *Job) Schedules() bool { return j.sums.Refresh == j.Refresh }

// Scheduled records that all URLs here are scheduled by a refresh; 0: some may not be.
func (j *Job) Scheduled(by job.Refresh) { j.sums.Refresh = by }

// Threshold returns the logarithm of the value at which a visit is due; SetThreshold stores it.
func (j *Job) Threshold() float64 { return j.sums.Threshold }

// SetThreshold stores the logarithm of the value at which a visit is due.
func (j *Job) SetThreshold(log float64) { j.sums.Threshold = log }

// Exhausted reports whether the whole budget is used up.
func (j *Job) Exhausted() bool { return j.sums.Exhausted }

// Exhaust records that the whole budget is used up.
func (j *Job) Exhaust() { j.sums.Exhausted = true }

// Queued adjusts the numbers of outbox entries and of their links.
func (j *Job) Queued(entries, links int64) {
	j.sums.Entries += entries
	j.sums.Outbox += links
}

// Sum adds the counters of a job without waiting URLs, or subtracts them with a negative sign.
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
	s.CountVisits(c, sign)
}
