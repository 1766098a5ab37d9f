package hosts

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

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
	past        []string // workers whose leases ended here last, at most maxPast
	Frozen      int64    // end of the freeze during a handoff; 0: not frozen
}

// maxPast bounds the earlier workers of a host that may still report outcomes.
const maxPast = 4

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
	if peer := l.Session.Peer; !slices.Contains(t.past, peer) {
		t.past = append(t.past[max(0, len(t.past)-maxPast+1):], peer)
	}
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
