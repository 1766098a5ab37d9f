package ledger

import (
	"fmt"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// Sequence numbers the pending records of a host.
type Sequence interface {
	Number() uint64 // returns the next number
}

// Account holds the counters and URLs of a job on a host. It updates the sums of the job as well,
// so they cannot differ.
type Account struct {
	Job *Job     // the job
	Pos ring.Pos // position of the host
	// Tally holds the counters.
	Tally Tally

	ledger *Ledger
	seq    Sequence
	marks  marks
	room   room
	listed bool // listed in Ledger.changed
	dirty  bool // counters are to be written
}

// Open returns an empty account of a job on the host at a position.
func (l *Ledger) Open(j *Job, pos ring.Pos, seq Sequence) *Account {
	a := l.account(j, pos, seq, ondisk.Counters{})
	a.marks.from = nowhere
	return a
}

func (l *Ledger) account(j *Job, pos ring.Pos, seq Sequence, c ondisk.Counters) *Account {
	return &Account{Job: j, Pos: pos, Tally: Tally{job: j, c: c}, ledger: l, seq: seq, marks: marks{nextDue: Never, unsaved: Never, visit: Never}}
}

// Load reads the accounts of a host; of returns the job of an ID. A corrupt record fails the
// buffer.
func (l *Ledger) Load(name string, pos ring.Pos, seq Sequence, of func(job.ID) *Job) (list []*Account) {
	prefix := ondisk.HostPrefix(pos, ondisk.KindCounters)
	l.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, value []byte) bool {
		id, ok := job.IDFrom(key[len(prefix):])
		c, err := ondisk.DecodeCounters(value)
		if !ok {
			err = ondisk.ErrFormat
		}
		if err != nil {
			l.buf.Fail(fmt.Errorf("owner: counters of %s: %w", name, err))
			return false
		}
		list = append(list, l.account(of(id), pos, seq, c))
		return true
	})
	for _, a := range list {
		if a.Tally.c.Delayed > 0 {
			a.marks.nextDue = l.firstDue(pos, a.Job.ID)
		}
		if a.Tally.c.Scheduled > 0 {
			a.marks.visit = 0
			a.marks.visit = a.Visits(func(uint32, uint64) bool { return false })
		}
		if spec := a.Job.Spec; spec != nil && spec.Ordered() {
			a.marks.from = nowhere
			a.scan(ondisk.KindReady, ondisk.Spot{}, func(p *ondisk.Pending) bool {
				a.marks.from = p.Spot
				return false
			})
		}
	}
	return list
}

// firstDue reads the due time of the first delayed record.
func (l *Ledger) firstDue(pos ring.Pos, id job.ID) int64 {
	due := Never
	prefix := ondisk.JobPrefix(pos, ondisk.KindDelayed, id)
	l.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		if at, ok := ondisk.DelayedSpot(key[len(prefix):]); ok {
			due = at.Due
		}
		return false
	})
	return due
}

// Save writes the counters, if changed.
func (a *Account) Save() {
	if a.dirty {
		a.dirty, a.marks.unsaved = false, Never
		a.ledger.buf.Set(ondisk.CountersKey(a.Pos, a.Job.ID), a.Tally.c.Encode())
	}
}

// NextDue returns the earliest due time of a URL that waits for a retry; Never if none does.
func (a *Account) NextDue() int64 { return a.marks.nextDue }

// First returns the rank of the first URL that may be ready; 0 if the job has no order of its own,
// so that all hosts are equal.
func (a *Account) First() uint32 {
	if spec := a.Job.Spec; spec == nil || !spec.Ordered() {
		return 0
	}
	return a.marks.from.Place()
}

// changed marks the account to be written and evaluated.
func (a *Account) changed() {
	a.dirty = true
	if !a.listed {
		a.listed = true
		a.ledger.changed = append(a.ledger.changed, a)
	}
}

// both updates the counters of the host and of the peer.
func (a *Account) both(count func(c *ondisk.Counters)) {
	a.Tally.both(count)
	a.changed()
}

// NotModified counts an answer with status 304.
func (a *Account) NotModified() { a.both(func(c *ondisk.Counters) { c.NotModified++ }) }

// Requested counts a request that was made, or would have been.
func (a *Account) Requested() { a.both(func(c *ondisk.Counters) { c.Requests++ }) }

// Refetched counts a fetch of a URL that already had its outcome.
func (a *Account) Refetched() { a.both(func(c *ondisk.Counters) { c.Refetched++ }) }

// CutLink counts a rejected link.
func (a *Account) CutLink() { a.both(func(c *ondisk.Counters) { c.Cut++ }) }

// Merge merges counters of another owner that are not recomputed from the URLs.
func (a *Account) Merge(in *ondisk.Counters) {
	if a.Tally.merge(in) {
		a.changed()
	}
}

// Fail makes the pending URLs share an outcome until a time.
func (a *Account) Fail(outcome link.Outcome, until int64) {
	a.Tally.c.Down, a.Tally.c.DownUntil = outcome, until
	a.changed()
}

// Answers ends the shared outcome.
func (a *Account) Answers() {
	if a.Tally.c.Down != link.OutcomeNone {
		a.Tally.c.Down, a.Tally.c.DownUntil = link.OutcomeNone, 0
		a.changed()
	}
}

// Admit stores the verdict of the owner of the registrable domain.
func (a *Account) Admit(v domain.Verdict) {
	a.Tally.c.Admission = v
	a.changed()
}

// Trapped records that the pages of the host have no new content any more.
func (a *Account) Trapped() {
	a.Tally.c.Trap = true
	a.changed()
}

// Outgrown records that the host has used the request limit of an endlessly growing host.
func (a *Account) Outgrown() {
	a.Tally.c.Exhausted = true
	a.changed()
}
