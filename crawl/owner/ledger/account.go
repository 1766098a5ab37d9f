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
	Number() uint64 // of a further record
}

// Account is the books of a job on a host. What is summed over the hosts of a job is counted along
// with it, so the two cannot differ.
type Account struct {
	ledger *Ledger
	job    *Job
	pos    ring.Pos
	seq    Sequence

	c          ondisk.Counters
	out        int64 // URLs at a worker
	outDelayed int64 // of them, those with a delayed record
	outPaid    int64 // of them, those with a promise
	// from is the first place where a ready record that is not out may lie; nextDue likewise for
	// delayed ones, Never if there is none.
	from    ondisk.Spot
	nextDue int64
	length  float64 // mean of the last URLs that were accepted, in bytes; 0: none was
	listed  bool    // it stands in Ledger.changed
	dirty   bool    // its counters are to be written
}

// Open returns the account of a job on the host at a position, as nothing is known of it yet.
func (l *Ledger) Open(j *Job, pos ring.Pos, seq Sequence) *Account {
	return l.account(j, pos, seq, ondisk.Counters{MinDepth: 1<<32 - 1})
}

func (l *Ledger) account(j *Job, pos ring.Pos, seq Sequence, c ondisk.Counters) *Account {
	return &Account{ledger: l, job: j, pos: pos, seq: seq, c: c, nextDue: Never}
}

// Load reads the accounts of a host; of says which job an ID is. After a record that cannot be read
// the buffer has failed.
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
		if a.c.Delayed > 0 {
			a.nextDue = a.firstDue()
		}
	}
	return list
}

// firstDue reads when the first delayed record is due.
func (a *Account) firstDue() int64 {
	due := Never
	prefix := ondisk.JobPrefix(a.pos, ondisk.KindDelayed, a.job.ID)
	a.ledger.buf.Scan(prefix, kv.PrefixEnd(prefix), func(key, _ []byte) bool {
		if at, ok := ondisk.DelayedSpot(key[len(prefix):]); ok {
			due = at.Due
		}
		return false
	})
	return due
}

// Save writes the counters, if they have changed since they were written.
func (a *Account) Save() {
	if a.dirty {
		a.dirty = false
		a.ledger.buf.Set(ondisk.CountersKey(a.pos, a.job.ID), a.c.Encode())
	}
}

// Job is whose books they are, Pos where the host lies.
func (a *Account) Job() *Job { return a.job }

// Pos is where the host lies.
func (a *Account) Pos() ring.Pos { return a.pos }

// Counters are what is counted.
func (a *Account) Counters() ondisk.Counters { return a.c }

// Accepted are the URLs of the set.
func (a *Account) Accepted() int64 { return a.c.Accepted }

// Requests are those made to the host.
func (a *Account) Requests() int64 { return a.c.Requests }

// Bytes are those of bodies.
func (a *Account) Bytes() int64 { return a.c.Bytes }

// Open are the URLs without an outcome.
func (a *Account) Open() int64 { return a.c.Open() }

// Out are the URLs at a worker.
func (a *Account) Out() int64 { return a.out }

// Unleased are the URLs without an outcome that are not out: those that are Ready, and those that
// are Waiting for another try.
func (a *Account) Unleased() int64 { return a.c.Open() - a.out }

// Ready URLs may be granted now.
func (a *Account) Ready() int64 { return a.Unleased() - a.Waiting() }

// Waiting URLs wait for another try, the first until NextDue.
func (a *Account) Waiting() int64 { return a.c.Delayed - a.outDelayed }

// NextDue is when the first URL that waits for another try is due, or was; Never if none waits.
func (a *Account) NextDue() int64 { return a.nextDue }

// Promised are the URLs with a part of the budget, PromisedHere those of them that are not out.
func (a *Account) Promised() int64 { return a.c.Promised }

// PromisedHere are the URLs with a part of the budget that are not out.
func (a *Account) PromisedHere() int64 { return a.c.Promised - a.outPaid }

// Pages are those fetched, also if only their beginnings were taken.
func (a *Account) Pages() int64 {
	return a.c.Outcomes[link.OutcomeOK] + a.c.Outcomes[link.OutcomeDuplicate] + a.c.Outcomes[link.OutcomeTooLarge]
}

// Admission is what the owner of the registrable domain said of the host.
func (a *Account) Admission() domain.Verdict { return a.c.Admission }

// Trap says whether the pages of the host bring nothing new any more.
func (a *Account) Trap() bool { return a.c.Trap }

// Exhausted says whether the host has had the requests of one that grows without end.
func (a *Account) Exhausted() bool { return a.c.Exhausted }

// Down is the outcome that pending URLs share until a time.
func (a *Account) Down() (outcome link.Outcome, until int64) { return a.c.Down, a.c.DownUntil }

// changed notes that the account is to be written, and looked at.
func (a *Account) changed() {
	a.dirty = true
	if !a.listed {
		a.listed = true
		a.ledger.changed = append(a.ledger.changed, a)
	}
}

// both counts on the host and on the peer.
func (a *Account) both(count func(c *ondisk.Counters)) {
	count(&a.c)
	count(&a.job.sums)
	a.changed()
}

// Requested counts a request that was made, or would have been.
func (a *Account) Requested() { a.both(func(c *ondisk.Counters) { c.Requests++ }) }

// Refetched counts a URL that was fetched though it had its outcome.
func (a *Account) Refetched() { a.both(func(c *ondisk.Counters) { c.Refetched++ }) }

// CutLink counts a link that was not taken.
func (a *Account) CutLink() { a.both(func(c *ondisk.Counters) { c.Cut++ }) }

// Fail has the pending URLs share an outcome until then.
func (a *Account) Fail(outcome link.Outcome, until int64) {
	a.c.Down, a.c.DownUntil = outcome, until
	a.changed()
}

// Answers ends that.
func (a *Account) Answers() {
	if a.c.Down != link.OutcomeNone {
		a.c.Down, a.c.DownUntil = link.OutcomeNone, 0
		a.changed()
	}
}

// Admit notes what the owner of the registrable domain says of the host.
func (a *Account) Admit(v domain.Verdict) {
	a.c.Admission = v
	a.changed()
}

// Trapped notes that the pages of the host bring nothing new any more.
func (a *Account) Trapped() {
	a.c.Trap = true
	a.changed()
}

// Outgrown notes that the host has had the requests of one that grows without end.
func (a *Account) Outgrown() {
	a.c.Exhausted = true
	a.changed()
}

// Shallower notes a depth at which a URL was met.
func (a *Account) Shallower(depth uint32) {
	if depth < a.c.MinDepth {
		a.c.MinDepth = depth
		a.changed()
	}
}

// waits counts URLs that wait for another try, or do so no more.
func (a *Account) waits(n int64) { a.both(func(c *ondisk.Counters) { c.Delayed += n }) }

// promises counts URLs with a part of the budget, or without it again.
func (a *Account) promises(n int64) { a.both(func(c *ondisk.Counters) { c.Promised += n }) }

func (a *Account) lease(p *ondisk.Pending, n int64) {
	a.out += n
	a.job.out += n
	if p.Due > 0 {
		a.outDelayed += n
	}
	if p.Promised {
		a.outPaid += n
	}
}

// Merge takes what another owner has counted and what is not counted anew from its URLs.
func (a *Account) Merge(in *ondisk.Counters) {
	t, s := &a.c, &a.job.sums
	news := false
	if t.Admission.Before(in.Admission) {
		t.Admission, news = in.Admission, true
	}
	for _, n := range []struct{ have, all, in *int64 }{
		{&t.Refetched, &s.Refetched, &in.Refetched}, {&t.Requests, &s.Requests, &in.Requests}, {&t.Cut, &s.Cut, &in.Cut},
	} {
		if more := *n.in - *n.have; more > 0 {
			*n.have += more
			*n.all += more
			news = true
		}
	}
	if in.Trap && !t.Trap || in.Exhausted && !t.Exhausted || in.Rest > t.Rest {
		t.Trap, t.Exhausted, t.Rest, news = t.Trap || in.Trap, t.Exhausted || in.Exhausted, max(t.Rest, in.Rest), true
	}
	if news {
		a.changed()
	}
}

// Leave takes the account out of the sums, as another owner has the host.
func (a *Account) Leave() {
	c := &a.job.sums
	c.Accepted -= a.c.Accepted
	for i, n := range a.c.Outcomes {
		c.Outcomes[i] -= n
	}
	c.Delayed -= a.c.Delayed
	c.Promised -= a.c.Promised
	c.Bytes -= a.c.Bytes
	c.LeftOut -= a.c.LeftOut
	c.Refetched -= a.c.Refetched
	c.Requests -= a.c.Requests
	c.Cut -= a.c.Cut
}
