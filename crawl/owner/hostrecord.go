package owner

import (
	"bytes"
	"cmp"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// What comes to a host's record, each with its rule. Nobody else writes it.

// lead begins a lease of a worker under the next epoch.
func (r *hostRecord) lead(self, worker string) {
	r.epoch = Epoch{r.epoch.Counter + 1, self}
	r.worker = worker
}

// follow notes an epoch of another owner, if it is later.
func (r *hostRecord) follow(epoch Epoch) {
	if epoch.After(r.epoch) {
		r.epoch = epoch
	}
}

// names notes the worker that may hold a lease, empty if none may.
func (r *hostRecord) names(worker string) { r.worker = worker }

// owe has the host left alone until then at least: politeness, whoever made the requests.
func (r *hostRecord) owe(until int64) { r.notBefore = max(r.notBefore, until) }

// serves notes a URL of the host.
func (r *hostRecord) serves(url string) { r.secure = r.secure || strings.HasPrefix(url, "https:") }

// number is that of a further pending record.
func (r *hostRecord) number() uint64 {
	r.seq++
	return r.seq
}

// failed counts one more failure of the whole host in a row.
func (r *hostRecord) failed(outcome link.Outcome) {
	r.fails++
	r.failOutcome = outcome
}

// backOff has the host left alone until then at least, for that reason.
func (r *hostRecord) backOff(until int64, why string) {
	r.backoffUntil, r.backoffReason = max(r.backoffUntil, until), why
}

// answered ends a run of failures, and says whether there was one.
func (r *hostRecord) answered() bool {
	if r.fails == 0 {
		return false
	}
	r.fails, r.failOutcome, r.backoffUntil, r.backoffReason = 0, link.OutcomeNone, 0, ""
	return true
}

// reserve keeps the host for requests that measure, until then.
func (r *hostRecord) reserve(until int64) { r.notBefore = until }

// unreserve ends that: what was owed before is owed, if nothing else has come in between.
func (r *hostRecord) unreserve(until, before int64) {
	if r.notBefore == until {
		r.notBefore = before
	}
}

// at notes the addresses of the host.
func (r *hostRecord) at(addrs [][]byte) {
	r.addrs = r.addrs[:0]
	for _, addr := range addrs {
		r.addrs = append(r.addrs, bytes.Clone(addr))
	}
}

// queued counts entries of the host's outbox that came, or went.
func (r *hostRecord) queued(entries int) { r.outbox += uint64(entries) } //nolint:gosec // what went had come

// opts notes that the site has opted out, or that it has withdrawn that.
func (r *hostRecord) opts(out bool, at int64, why string) {
	r.optOut = optOut{version: min(r.optOut.version+1, maxVersion), on: out, at: min(at, maxTime), why: clip(why)}
}

// placedAnew is for how long the same placement is not written again, in ms: where nobody takes a host it comes out the same with each try, and every write goes to
// the disks of all replicas.
const placedAnew = 10 * 60 * 1000

// placedBy notes a placement; false if it says nothing that is not there.
func (r *hostRecord) placedBy(p *Placement, now int64) bool {
	why, measured := clip(p.Why), r.measured
	if len(p.Measured) > 0 {
		measured = slices.Clone(p.Measured[:min(len(p.Measured), maxMeasurements)])
		for i := range measured {
			measured[i].Error = clip(measured[i].Error)
		}
	}
	same := r.placed == p.Worker && r.placedWhy == why && slices.Equal(r.measured, measured)
	if same && r.fetchBase == 0 && r.slowRuns == 0 && now-r.placedAt < placedAnew {
		return false
	}
	r.placed, r.placedAt, r.placedWhy, r.measured = p.Worker, now, why, measured
	r.fetchBase, r.slowRuns = 0, 0
	return true
}

// merge takes in what another copy says, and says whether it has another word on the opt-out.
func (r *hostRecord) merge(in *hostRecord) (optOut bool) {
	if in.epoch.After(r.epoch) {
		r.epoch = in.epoch
	}
	r.owe(in.notBefore)
	if in.troubleAfter(r) {
		r.backoffUntil, r.backoffReason, r.fails, r.failOutcome = in.backoffUntil, in.backoffReason, in.fails, in.failOutcome
	}
	if in.placedAfter(r) {
		r.placed, r.placedAt, r.placedWhy, r.measured = in.placed, in.placedAt, in.placedWhy, in.measured
		r.fetchBase, r.slowRuns = in.fetchBase, in.slowRuns
	}
	if slices.CompareFunc(in.addrs, r.addrs, bytes.Compare) > 0 {
		r.addrs = in.addrs
	}
	r.secure, r.rest = r.secure || in.secure, max(r.rest, in.rest)
	if optOut = in.optOut.after(&r.optOut); optOut {
		r.optOut = in.optOut
	}
	return optOut
}

// troubleAfter orders what records say of failures in a row.
func (r *hostRecord) troubleAfter(q *hostRecord) bool {
	return cmp.Or(cmp.Compare(r.backoffUntil, q.backoffUntil), cmp.Compare(r.fails, q.fails), cmp.Compare(r.failOutcome, q.failOutcome),
		cmp.Compare(r.backoffReason, q.backoffReason)) > 0
}

// placedAfter orders what records say of the last placement.
func (r *hostRecord) placedAfter(q *hostRecord) bool {
	return cmp.Or(cmp.Compare(r.placedAt, q.placedAt), cmp.Compare(r.placed, q.placed), cmp.Compare(r.placedWhy, q.placedWhy),
		cmp.Compare(len(r.measured), len(q.measured)), cmp.Compare(r.fetchBase, q.fetchBase), cmp.Compare(r.slowRuns, q.slowRuns)) > 0
}
