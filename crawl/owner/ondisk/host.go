package ondisk

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// What comes to a host's record, each with its rule. Nobody else writes it.

// NextEpoch begins a lease of a worker under the next epoch.
func (r *Host) NextEpoch(self, worker string) {
	r.Epoch = Epoch{r.Epoch.Counter + 1, self}
	r.Worker = worker
}

// AdoptEpoch notes an epoch of another owner, if it is later.
func (r *Host) AdoptEpoch(epoch Epoch) {
	if epoch.After(r.Epoch) {
		r.Epoch = epoch
	}
}

// Names notes the worker that may hold a lease, empty if none may.
func (r *Host) Names(worker string) { r.Worker = worker }

// Owe has the host left alone until then at least: politeness, whoever made the requests.
func (r *Host) Owe(until int64) { r.NotBefore = max(r.NotBefore, until) }

// Serves notes a URL of the host.
func (r *Host) Serves(url string) { r.Secure = r.Secure || strings.HasPrefix(url, "https:") }

// Number is that of a further pending record.
func (r *Host) Number() uint64 {
	r.Seq++
	return r.Seq
}

// Failed counts one more failure of the whole host in a row.
func (r *Host) Failed(outcome link.Outcome) {
	r.Fails++
	r.FailOutcome = outcome
}

// BackOff has the host left alone until then at least, for that reason.
func (r *Host) BackOff(until int64, why string) {
	r.BackoffUntil, r.BackoffReason = max(r.BackoffUntil, until), why
}

// Answered ends a run of failures, and says whether there was one.
func (r *Host) Answered() bool {
	if r.Fails == 0 {
		return false
	}
	r.Fails, r.FailOutcome, r.BackoffUntil, r.BackoffReason = 0, link.OutcomeNone, 0, ""
	return true
}

// Reserve keeps the host for requests that measure, until then.
func (r *Host) Reserve(until int64) { r.NotBefore = until }

// Unreserve ends that: what was owed before is owed, if nothing else has come in between.
func (r *Host) Unreserve(until, before int64) {
	if r.NotBefore == until {
		r.NotBefore = before
	}
}

// At notes the addresses of the host, in a list of their own: grants and placements under way hold
// the one before.
func (r *Host) At(addrs [][]byte) {
	r.Addrs = make([][]byte, len(addrs))
	for i, addr := range addrs {
		r.Addrs[i] = bytes.Clone(addr)
	}
}

// Queued counts entries of the host's outbox that came, or went.
func (r *Host) Queued(entries int) { r.Outbox += uint64(entries) } // what went had come

// Opts notes that the site has opted out, or that it has withdrawn that.
func (r *Host) Opts(out bool, at int64, why string) {
	r.OptOut = OptOut{Version: min(r.OptOut.Version+1, maxVersion), On: out, At: min(at, MaxTime), Why: Clip(why)}
}

// placedAnew is for how long the same placement is not written again, in ms: where nobody takes a
// host it comes out the same with each try, and every write goes to the disks of all replicas.
const placedAnew = 10 * 60 * 1000

// PlacedBy notes a placement, and what was measured for it if anything was; false if it says
// nothing that is not there.
func (r *Host) PlacedBy(worker, why string, fresh []Measurement, now int64) bool {
	why = Clip(why)
	measured := r.Measured
	if len(fresh) > 0 {
		measured = slices.Clone(fresh[:min(len(fresh), maxMeasurements)])
		for i := range measured {
			measured[i].Error = Clip(measured[i].Error)
		}
	}
	same := r.Placed == worker && r.PlacedWhy == why && slices.Equal(r.Measured, measured)
	if same && r.fetchBase == 0 && r.slowRuns == 0 && now-r.PlacedAt < placedAnew {
		return false
	}
	r.Placed, r.PlacedAt, r.PlacedWhy, r.Measured = worker, now, why, measured
	r.fetchBase, r.slowRuns = 0, 0
	return true
}

// Merge takes in what another copy says, and says whether it has another word on the opt-out.
func (r *Host) Merge(in *Host) (optOut bool) {
	if in.Epoch.After(r.Epoch) {
		r.Epoch = in.Epoch
	}
	r.Owe(in.NotBefore)
	if in.troubleAfter(r) {
		r.BackoffUntil, r.BackoffReason, r.Fails, r.FailOutcome = in.BackoffUntil, in.BackoffReason, in.Fails, in.FailOutcome
	}
	if in.placedAfter(r) {
		r.Placed, r.PlacedAt, r.PlacedWhy, r.Measured = in.Placed, in.PlacedAt, in.PlacedWhy, in.Measured
		r.fetchBase, r.slowRuns = in.fetchBase, in.slowRuns
	}
	if slices.CompareFunc(in.Addrs, r.Addrs, bytes.Compare) > 0 {
		r.Addrs = in.Addrs
	}
	r.Secure, r.rest = r.Secure || in.Secure, max(r.rest, in.rest)
	if optOut = in.OptOut.after(&r.OptOut); optOut {
		r.OptOut = in.OptOut
	}
	return optOut
}

// troubleAfter orders what records say of failures in a row.
func (r *Host) troubleAfter(q *Host) bool {
	return cmp.Or(cmp.Compare(r.BackoffUntil, q.BackoffUntil), cmp.Compare(r.Fails, q.Fails), cmp.Compare(r.FailOutcome, q.FailOutcome),
		cmp.Compare(r.BackoffReason, q.BackoffReason)) > 0
}

// placedAfter orders what records say of the last placement.
func (r *Host) placedAfter(q *Host) bool {
	return cmp.Or(cmp.Compare(r.PlacedAt, q.PlacedAt), cmp.Compare(r.Placed, q.Placed), cmp.Compare(r.PlacedWhy, q.PlacedWhy),
		cmp.Compare(len(r.Measured), len(q.Measured)), cmp.Compare(r.fetchBase, q.fetchBase), cmp.Compare(r.slowRuns, q.slowRuns)) > 0
}

// Calibration (design, section 5): slowFactor above what it was, slowRuns reports in a row, is
// slower; the first report of a worker makes the measure. Growth below slowFloor ms is noise, as of
// a loaded machine, and not worth a move.
const (
	slowFactor = 2
	slowFloor  = 50
	slowRuns   = 3
)

// Slower compares the mean time of fetches with that of when the worker was new (design, section
// 5), and says whether they were slower several times in a row.
func (r *Host) Slower(mean uint32) bool {
	switch {
	case r.fetchBase == 0:
		r.fetchBase = max(mean, 1)
	case mean > slowFactor*r.fetchBase && mean-r.fetchBase > slowFloor:
		if r.slowRuns++; r.slowRuns >= slowRuns {
			r.slowRuns = 0
			return true
		}
	default:
		r.slowRuns = 0
	}
	return false
}

// OptOut is the wish of those who run a host, as its record keeps it. Of two copies the later
// version wins, and of two that are equally late the one that has opted out.
type OptOut struct {
	Version uint64 // 0: nobody ever asked
	On      bool   // it has opted out
	At      int64  // Unix ms
	Why     string // in words
}

// maxVersion bounds the number of wishes.
const maxVersion = 1 << 48

// after orders what copies say.
func (r *OptOut) after(q *OptOut) bool {
	on := func(r *OptOut) int {
		if r.On {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(r.Version, q.Version), cmp.Compare(on(r), on(q)), cmp.Compare(r.At, q.At), cmp.Compare(r.Why, q.Why)) > 0
}

// Clip keeps a reason within its bound, and whole runes of it: a message with half a one is not
// sent.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "") }
