package hosts

import (
	"bytes"
	"maps"
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Lease is the grant of a host to a worker.
type Lease struct {
	Session *Session
	Epoch   ondisk.Epoch
	Signed  []byte // signature of its certificate
	Expires int64
	LookAt  int64 // time of the next expiry check; 0: Expires
	Out     map[uint64]*Item
	Last    uint64 // seq of the Session whose reply granted last
	Fresh   bool   // nothing was granted under it yet
	// Bounded leases grant a limited number of URLs, then the host is placed again.
	Bounded bool
	Left    int
	Said    uint64  // number of the last visit that listed it as held
	Want    int     // index of this step's request in granter.wants, from 1; 0: none
	Pace    float64 // factor of the request interval; 1 or less: normal
	Told    float64 // last factor sent to the worker, including the additional one of the host's pages; 0: none
	Check   bool    // for the checks of the host's pages alone
	Owing   int64   // since when an outcome is due: time of the last one, or of the first URL out
}

// Item is a URL out under a lease. Its pending record (without the URL, which is read if needed)
// stays in the store.
//
// A URL that is fetched again has no pending record: its Due is that of the visit, and its entry
// stays done.
type Item struct {
	ondisk.Pending
	Job   *Job
	Seq   uint64 // of the Session whose reply granted it
	Again bool   // it has an outcome, and is fetched again
	Plain bool   // without a condition, though it has a validator
	Check *Check // the page is fetched again only to check its report
}

// Item returns the URL out under the lease with a hash, nil if there is none; l may be nil.
func (l *Lease) Item(hash uint64) *Item {
	if l == nil {
		return nil
	}
	return l.Out[hash]
}

// SpokenOf reports whether the message that lists the lease as held is still being processed, or
// may be: its worker waits for the reply.
func (l *Lease) SpokenOf() bool {
	return l.Session.Renewing || l.Said > 0 && l.Said == l.Session.Visiting
}

// Session is the state of a worker.
type Session struct {
	Peer        string
	Incarnation uint64
	Told        bool // named by an earlier owner, not yet by the worker itself
	Seq, Ack    uint64
	Capacity    uint32
	Backlog     uint32
	Heard       int64
	Relieved    int64 // time at which an overloaded worker last lost a host
	Leases      map[*Host]struct{}
	Offers      []*Host // pending offers, oldest first; no more than hosts are being placed
	Visiting    uint64  // number of the current visit; 0: none
	Renewing    bool    // not all leases are renewed yet
	Earned      int     // outcomes of URLs leased to it
}

// Held returns the worker's hosts in ring order, so that simulations are deterministic.
func (s *Session) Held() []*Host {
	return slices.SortedFunc(maps.Keys(s.Leases), func(a, b *Host) int { return bytes.Compare(a.Pos[:], b.Pos[:]) })
}

const (
	// overloadedShare is the share of its capacity at which a worker counts as overloaded, as in
	// crawl/placement.
	overloadedShare = 0.9
)

// Overloaded reports whether a worker's reported backlog is close to its capacity.
func (s *Session) Overloaded() bool {
	return s.Capacity > 0 && float64(s.Backlog) >= overloadedShare*float64(s.Capacity)
}

// Tenure is the lease state of a host, with the not-before time of the next lease (bar).
//
//	state    next     because
//	free     held     begin: a worker takes the host, or its lease is adopted from an earlier owner
//	held     free     end: it returned the host, and sends nothing any more
//	held     barred   end: it may still act on its lease, until bar
//	free     barred   claimed: by a record, a lease of an earlier owner may be alive
//	barred   free     lift: that lease is over, or adopted; or bar has passed
//	any      frozen   freeze: the host is being handed off; thaw ends that
//
// Frozen is independent of the others: a lease is handed off with its host, or stays if that fails.
type Tenure struct {
	Lease *Lease
	bar   int64 // nothing is granted before
	// barBy is the lease of an imported record that bar waits for, if it is the only reason. Over is
	// the last lease that ended here: a copy that still names it is outdated.
	barBy, Over ondisk.Epoch
	Frozen      int64 // end of the freeze during a handoff; 0: not frozen
}

// Barred reports whether a worker may still act on a lease that is not here.
func (t *Tenure) Barred(now int64) bool { return t.bar > now }

// barUntil delays the next lease until a time.
func (t *Tenure) barUntil(at int64) { t.bar = max(t.bar, at) }

// Begin assigns the host to the worker of a lease.
func (t *Tenure) Begin(l *Lease) { t.Lease = l }

// End ends the lease and returns it. The host is not leased again before bar.
func (t *Tenure) End(bar int64) *Lease {
	l := t.Lease
	t.Lease, t.Over = nil, l.Epoch
	t.barUntil(bar)
	return l
}

// Ended records that the lease of an epoch is over, regardless of older copies that arrive before
// or after.
func (t *Tenure) Ended(epoch ondisk.Epoch) {
	t.Lift(epoch)
	if epoch.After(t.Over) {
		t.Over = epoch
	}
}

// Lift clears bar if only the lease of that epoch caused it.
func (t *Tenure) Lift(epoch ondisk.Epoch) {
	if t.barBy == epoch {
		t.bar, t.barBy = 0, ondisk.Epoch{}
	}
}

// Knows reports whether the lease of an epoch is the one here, or the last one that ended here.
func (t *Tenure) Knows(epoch ondisk.Epoch) bool {
	return epoch == t.Over && t.Over.Counter > 0 || t.Lease != nil && t.Lease.Epoch == epoch
}

// Claimed records that the lease of an epoch may be alive until a time. If several leases set bar,
// it is attributed to none of them.
func (t *Tenure) Claimed(epoch ondisk.Epoch, until, now int64) {
	switch {
	case !t.Barred(now):
		t.barBy = epoch
	case t.barBy != epoch:
		t.barBy = ondisk.Epoch{}
	}
	t.barUntil(until)
}

// Awaits makes the host wait for the lease of an epoch.
func (t *Tenure) Awaits(epoch ondisk.Epoch, until int64) {
	t.barUntil(until)
	t.barBy = epoch
}

// Freeze blocks changes of the host until then, during a handoff.
func (t *Tenure) Freeze(until int64) { t.Frozen = until }

// Thaw ends the freeze, and reports whether the host was frozen.
func (t *Tenure) Thaw() bool {
	was := t.Frozen > 0
	t.Frozen = 0
	return was
}

// Lapsed reports whether the lease has expired; that of a frozen host continues at the next owner.
func (t *Tenure) Lapsed(now int64) bool {
	return t.Lease != nil && t.Lease.Expires <= now && t.Frozen == 0
}

// changesAt returns the time of the next change by itself; never if there is none.
func (t *Tenure) changesAt() int64 {
	switch {
	case t.Frozen > 0:
		return t.Frozen
	case t.Lease != nil:
		return max(t.Lease.Expires, t.Lease.LookAt)
	default:
		return Never
	}
}
