package ondisk

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// The mutations of a host record, each with its rule. There are no others.

// NextEpoch begins a lease of a worker under the next epoch.
func (r *Host) NextEpoch(self, worker string) {
	r.Epoch = Epoch{r.Epoch.Counter + 1, self}
	r.Worker = worker
}

// AdoptEpoch stores an epoch of another owner, if it is later.
func (r *Host) AdoptEpoch(epoch Epoch) {
	if epoch.After(r.Epoch) {
		r.Epoch = epoch
	}
}

// Names stores the worker that may hold a lease, empty if there is none.
func (r *Host) Names(worker string) { r.Worker = worker }

// Owe raises the not-before time set by politeness, regardless of which peer sent the requests.
func (r *Host) Owe(until int64) { r.NotBefore = max(r.NotBefore, until) }

// Serves records the scheme of a URL of the host.
func (r *Host) Serves(url string) { r.Secure = r.Secure || strings.HasPrefix(url, "https:") }

// Number returns the number of a new pending record.
func (r *Host) Number() uint64 {
	r.Seq++
	return r.Seq
}

// Failed counts one more consecutive failure of the whole host.
func (r *Host) Failed(outcome link.Outcome) {
	r.Fails++
	r.FailOutcome = outcome
}

// BackOff extends the backoff, with its reason.
func (r *Host) BackOff(until int64, why string) {
	r.BackoffUntil, r.BackoffReason = max(r.BackoffUntil, until), why
}

// Answered resets the consecutive failures, and reports whether there were any.
func (r *Host) Answered() bool {
	if r.Fails == 0 {
		return false
	}
	r.Fails, r.FailOutcome, r.BackoffUntil, r.BackoffReason = 0, link.OutcomeNone, 0, ""
	return true
}

// Reserve reserves the host until then for measuring requests.
func (r *Host) Reserve(until int64) { r.NotBefore = until }

// Unreserve ends the reservation: it restores the earlier not-before time, unless that has changed.
func (r *Host) Unreserve(until, before int64) {
	if r.NotBefore == until {
		r.NotBefore = before
	}
}

// At stores the addresses of the host in a new slice: pending grants and placements refer to the
// old one.
func (r *Host) At(addrs [][]byte) {
	r.Addrs = make([][]byte, len(addrs))
	for i, addr := range addrs {
		r.Addrs[i] = bytes.Clone(addr)
	}
}

// Queued adjusts the number of the host's outbox entries.
func (r *Host) Queued(entries int) { r.Outbox += uint64(entries) } // never negative in sum

// Opts records that the site has opted out, or has withdrawn its opt-out.
func (r *Host) Opts(out bool, at int64, why string) {
	r.OptOut = OptOut{Version: min(r.OptOut.Version+1, maxVersion), On: out, At: min(at, MaxTime), Why: Clip(why)}
}

// placedAnew is the time in ms for which an equal placement is not written again: if no worker
// takes a host, each try has the same result, and every write goes to the disks of all replicas.
const placedAnew = 10 * 60 * 1000

// PlacedBy records a placement and its measurements, if any; false if the record already has them.
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

// Merge merges another copy, and reports whether the opt-out has changed. With prove, one that
// changes whether the site has opted out is unproved.
func (r *Host) Merge(in *Host, prove bool) (optOut bool) {
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
	if in.Validators.after(&r.Validators) {
		r.Validators = in.Validators
	}
	for i, p := range in.Signals {
		if q := &r.Signals[i]; cmp.Or(cmp.Compare(p.Right+p.Wrong, q.Right+q.Wrong), cmp.Compare(p.Right, q.Right)) > 0 {
			*q = p
		}
	}
	r.Secure, r.rest = r.Secure || in.Secure, max(r.rest, in.rest)
	if optOut = in.OptOut.after(&r.OptOut); optOut {
		before := r.OptOut.Out()
		r.OptOut = in.OptOut
		r.OptOut.Unproved = prove && in.OptOut.On != before
	}
	return optOut
}

// troubleAfter orders records by their consecutive failures.
func (r *Host) troubleAfter(q *Host) bool {
	return cmp.Or(cmp.Compare(r.BackoffUntil, q.BackoffUntil), cmp.Compare(r.Fails, q.Fails), cmp.Compare(r.FailOutcome, q.FailOutcome),
		cmp.Compare(r.BackoffReason, q.BackoffReason)) > 0
}

// placedAfter orders records by their last placement.
func (r *Host) placedAfter(q *Host) bool {
	return cmp.Or(cmp.Compare(r.PlacedAt, q.PlacedAt), cmp.Compare(r.Placed, q.Placed), cmp.Compare(r.PlacedWhy, q.PlacedWhy),
		cmp.Compare(len(r.Measured), len(q.Measured)), cmp.Compare(r.fetchBase, q.fetchBase), cmp.Compare(r.slowRuns, q.slowRuns)) > 0
}

// Calibration (design, section 5): fetches are slower if slowRuns consecutive reports exceed the
// base time by slowFactor; the first report of a worker sets the base time. An increase below
// slowFloor ms is noise, as on a loaded machine, and not worth a move.
const (
	slowFactor = 2
	slowFloor  = 50
	slowRuns   = 3
)

// Slower compares the mean fetch time with that when the worker was new (design, section 5), and
// reports whether it was slower several times in a row.
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

// OptOut is the opt-out state of a host in its record. Of two copies the later version wins, and of
// two equal versions the one that has opted out.
type OptOut struct {
	Version uint64 // 0: never set
	On      bool   // the host has opted out
	At      int64  // Unix ms
	Why     string // reason, for display; the subject if a site has opted out
	// Unproved: another owner claims the change to On, and the site was not checked yet. Until then
	// the site has opted out as before.
	Unproved bool
}

// Out reports whether the site has opted out.
func (r *OptOut) Out() bool { return r.On != r.Unproved }

// Held reports whether nothing is fetched of the host until its opt-out was checked at the site.
func (r *OptOut) Held() bool { return r.On && r.Unproved }

// Validators counts visits with a validator, to learn whether the host's validators can be
// believed. Of two copies the one with more visits wins.
type Validators struct {
	Used    uint64 // visits to pages with a validator
	Checked uint64 // of them, those without a condition, so that validator and body were compared
	Lied    uint64 // of them, those with an equal validator and another content
}

const (
	// firstChecks visits of a host are made without a condition, and later every checkEvery-th.
	firstChecks, checkEvery = 3, 100
	// honest is the share of honest validators below which those of a host are not used.
	honest = 0.8
)

// Next counts a visit to a page with a validator, and reports whether to make the request
// conditional.
func (v *Validators) Next() (conditional bool) {
	v.Used++
	return v.Believed() && v.Used > firstChecks && v.Used%checkEvery != 0
}

// Believed reports whether the validators of the host were honest so far.
func (v *Validators) Believed() bool { return float64(v.Lied) <= (1-honest)*float64(v.Checked+1) }

// Compared counts a validator that was compared with its body.
func (v *Validators) Compared(lied bool) {
	v.Checked++
	if lied {
		v.Lied++
	}
}

// Signal is a kind of statement that a page has changed.
type Signal uint8

// The signals; 0 is none.
const (
	SignalSitemap Signal = 1 + iota
	SignalFeed
	SignalIndexNow

	signals = iota
)

// Precision counts the signals of a host of one kind.
type Precision struct{ Right, Wrong uint32 }

// Mean returns the expected share of right signals, from the prior Beta(1, 4).
func (p Precision) Mean() float64 { return float64(p.Right+1) / float64(p.Right+p.Wrong+5) }

// Proved counts a signal that a visit has checked.
func (r *Host) Proved(s Signal, right bool) {
	p := &r.Signals[s-1]
	if p.Right+p.Wrong > maxSignals { // older ones count half
		p.Right, p.Wrong = p.Right/2, p.Wrong/2
	}
	if right {
		p.Right++
	} else {
		p.Wrong++
	}
}

// maxSignals bounds the signals of a Precision.
const maxSignals = 1000

func (v *Validators) after(o *Validators) bool {
	return cmp.Or(cmp.Compare(v.Used, o.Used), cmp.Compare(v.Checked, o.Checked), cmp.Compare(v.Lied, o.Lied)) > 0
}

// maxVersion bounds the version.
const maxVersion = 1 << 48

// after orders copies by version.
func (r *OptOut) after(q *OptOut) bool {
	on := func(r *OptOut) int {
		if r.On {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(r.Version, q.Version), cmp.Compare(on(r), on(q)), cmp.Compare(r.At, q.At), cmp.Compare(r.Why, q.Why)) > 0
}

// Clip truncates a reason to its limit at a rune boundary: protobuf rejects invalid UTF-8.
func Clip(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxReason)], "") }
