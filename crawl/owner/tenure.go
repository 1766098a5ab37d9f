package owner

import "github.com/apoidea/apoidea/crawl/owner/ondisk"

// tenure says who has a host, and until when nobody else may have it.
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
type tenure struct {
	lease *lease
	bar   int64 // nothing is granted before
	// barBy is the lease that an imported record named and that bar waits for, if it is the only
	// reason. over is the lease that ended here last: a copy that still names it says nothing new.
	barBy, over ondisk.Epoch
	frozen      int64 // nothing changes before, as the host is on its way to another owner; 0 = it may
}

// barred says whether somebody may still act on a lease that is not here.
func (t *tenure) barred(now int64) bool { return t.bar > now }

// barUntil has nobody get the host before a time.
func (t *tenure) barUntil(at int64) { t.bar = max(t.bar, at) }

// begin gives the host to the worker of a lease.
func (t *tenure) begin(l *lease) { t.lease = l }

// end takes the host from its worker, and returns its lease. Nobody else gets the host before bar.
func (t *tenure) end(bar int64) *lease {
	l := t.lease
	t.lease, t.over = nil, l.epoch
	t.barUntil(bar)
	return l
}

// ended notes that the lease of an epoch is over, whatever older copies say that come before or
// after this.
func (t *tenure) ended(epoch ondisk.Epoch) {
	t.lift(epoch)
	if epoch.After(t.over) {
		t.over = epoch
	}
}

// lift ends the bar if it is for the lease of that epoch alone.
func (t *tenure) lift(epoch ondisk.Epoch) {
	if t.barBy == epoch {
		t.bar, t.barBy = 0, ondisk.Epoch{}
	}
}

// knows says whether the lease of an epoch is the one here, or the last one that ended here.
func (t *tenure) knows(epoch ondisk.Epoch) bool {
	return epoch == t.over && t.over.Counter > 0 || t.lease != nil && t.lease.epoch == epoch
}

// claimed notes that the lease of an epoch may be alive until a time. A bar that waits for several
// leases is for none alone.
func (t *tenure) claimed(epoch ondisk.Epoch, until, now int64) {
	switch {
	case !t.barred(now):
		t.barBy = epoch
	case t.barBy != epoch:
		t.barBy = ondisk.Epoch{}
	}
	t.barUntil(until)
}

// awaits has the host wait for the lease of an epoch.
func (t *tenure) awaits(epoch ondisk.Epoch, until int64) {
	t.barUntil(until)
	t.barBy = epoch
}

func (t *tenure) freeze(until int64) { t.frozen = until }

// thaw ends that, and says whether the host was frozen.
func (t *tenure) thaw() bool {
	was := t.frozen > 0
	t.frozen = 0
	return was
}

// lapsed says whether the lease's time is over; that of a frozen host goes on elsewhere.
func (t *tenure) lapsed(now int64) bool {
	return t.lease != nil && t.lease.expires <= now && t.frozen == 0
}

// changesAt is when time changes something by itself; never if it does not.
func (t *tenure) changesAt() int64 {
	switch {
	case t.frozen > 0:
		return t.frozen
	case t.lease != nil:
		return max(t.lease.expires, t.lease.lookAt)
	default:
		return never
	}
}
