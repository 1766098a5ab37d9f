package hosts

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// Tenure says who has a host, and until when nobody else may have it.
//
//	state    next     because
//	free     held     begin: a worker takes the host, or its lease is adopted from an earlier owner
//	held     free     end: it gave the host back, and sends nothing any more
//	held     barred   end: it may still act on what it has, until the bar
//	free     barred   claimed: a record says that a lease of an earlier owner may be alive
//	barred   free     lift: that very lease is over, or adopted; or the bar's time is over
//	any      frozen   freeze: the host is on its way to another owner; thaw ends that
//
// Frozen stands beside the others: a lease goes along with its host, or stays if that comes back.
type Tenure struct {
	Lease *Lease
	bar   int64 // nothing is granted before
	// barBy is the lease that an imported record named and that bar waits for, if it is the only
	// reason. over is the lease that ended here last: a copy that still names it says nothing new.
	barBy, Over ondisk.Epoch
	past        []string // the workers whose leases ended here last, at most maxPast
	Frozen      int64    // nothing changes before, as the host is on its way to another owner; 0 = it may
}

// maxPast bounds the earlier workers of a host that may still report what they fetched.
const maxPast = 4

// Barred says whether somebody may still act on a lease that is not here.
func (t *Tenure) Barred(now int64) bool { return t.bar > now }

// barUntil has nobody get the host before a time.
func (t *Tenure) barUntil(at int64) { t.bar = max(t.bar, at) }

// Begin gives the host to the worker of a lease.
func (t *Tenure) Begin(l *Lease) { t.Lease = l }

// End takes the host from its worker, and returns its lease. Nobody else gets the host before bar.
func (t *Tenure) End(bar int64) *Lease {
	l := t.Lease
	t.Lease, t.Over = nil, l.Epoch
	t.barUntil(bar)
	if peer := l.Session.Peer; !slices.Contains(t.past, peer) {
		t.past = append(t.past[max(0, len(t.past)-maxPast+1):], peer)
	}
	return l
}

// Ended notes that the lease of an epoch is over, whatever older copies say that come before or
// after this.
func (t *Tenure) Ended(epoch ondisk.Epoch) {
	t.Lift(epoch)
	if epoch.After(t.Over) {
		t.Over = epoch
	}
}

// Lift ends the bar if it is for the lease of that epoch alone.
func (t *Tenure) Lift(epoch ondisk.Epoch) {
	if t.barBy == epoch {
		t.bar, t.barBy = 0, ondisk.Epoch{}
	}
}

// Knows says whether the lease of an epoch is the one here, or the last one that ended here.
func (t *Tenure) Knows(epoch ondisk.Epoch) bool {
	return epoch == t.Over && t.Over.Counter > 0 || t.Lease != nil && t.Lease.Epoch == epoch
}

// Claimed notes that the lease of an epoch may be alive until a time. A bar that waits for several
// leases is for none alone.
func (t *Tenure) Claimed(epoch ondisk.Epoch, until, now int64) {
	switch {
	case !t.Barred(now):
		t.barBy = epoch
	case t.barBy != epoch:
		t.barBy = ondisk.Epoch{}
	}
	t.barUntil(until)
}

// Awaits has the host wait for the lease of an epoch.
func (t *Tenure) Awaits(epoch ondisk.Epoch, until int64) {
	t.barUntil(until)
	t.barBy = epoch
}

// Freeze has nobody change the host until then: it is on its way to another owner.
func (t *Tenure) Freeze(until int64) { t.Frozen = until }

// Thaw ends that, and says whether the host was frozen.
func (t *Tenure) Thaw() bool {
	was := t.Frozen > 0
	t.Frozen = 0
	return was
}

// Lapsed says whether the lease's time is over; that of a frozen host goes on elsewhere.
func (t *Tenure) Lapsed(now int64) bool {
	return t.Lease != nil && t.Lease.Expires <= now && t.Frozen == 0
}

// changesAt is when time changes something by itself; never if it does not.
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
