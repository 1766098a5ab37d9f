package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
)

// tally is what is counted of a job on a host. What is summed over the hosts of a job is counted along with it, so the two cannot differ.
type tally struct {
	counters
	job *jobState // has the sums

	out  int64 // leased URLs
	outD int64 // of them, those with a delayed record
	outP int64 // of them, those with a promise
}

// sums are what is counted of a job on the whole peer.
type sums struct {
	counters
	out int64
}

func newTally(js *jobState, c counters) tally { return tally{counters: c, job: js} }

// both counts on the host and on the peer.
func (t *tally) both(count func(c *counters)) {
	count(&t.counters)
	count(&t.job.c.counters)
}

// found counts one more URL of the set.
func (t *tally) found(depth uint32) {
	t.both(func(c *counters) { c.accepted++ })
	t.shallower(depth)
}

// shallower notes the depth of a URL, and says whether none was as small.
func (t *tally) shallower(depth uint32) bool {
	if depth >= t.minDepth {
		return false
	}
	t.minDepth = depth
	return true
}

// requested counts a request that was made, or would have been.
func (t *tally) requested() { t.both(func(c *counters) { c.requests++ }) }

// concluded counts the outcome of a URL.
func (t *tally) concluded(f *Final) { t.both(func(c *counters) { c.count(f, 1) }) }

// corrected counts another outcome in place of the one that a URL had.
func (t *tally) corrected(had, got *Final) {
	t.both(func(c *counters) {
		c.count(had, -1)
		c.count(got, 1)
	})
}

// count adds an outcome, or takes one away.
func (c *counters) count(f *Final, n int64) {
	c.outcomes[f.Outcome] += n
	c.bytes += n * int64(f.Size)
	c.leftOut += n * int64(f.LeftOut)
}

// refetchedOne counts a URL that was fetched though it had its outcome.
func (t *tally) refetchedOne() { t.both(func(c *counters) { c.refetched++ }) }

// waits counts URLs that wait for another try, or do so no more.
func (t *tally) waits(n int64) { t.both(func(c *counters) { c.delayed += n }) }

// promises counts URLs with a part of the budget, or without it again.
func (t *tally) promises(n int64) { t.both(func(c *counters) { c.promised += n }) }

// cutOne counts a link that was not taken.
func (t *tally) cutOne() { t.both(func(c *counters) { c.cut++ }) }

// leased counts a URL that is out under a lease.
func (t *tally) leased(p *pending) { t.lease(p, 1) }

// returned counts one that is out no more.
func (t *tally) returned(p *pending) { t.lease(p, -1) }

func (t *tally) lease(p *pending, n int64) {
	t.out += n
	t.job.c.out += n
	if p.due > 0 {
		t.outD += n
	}
	if p.promised {
		t.outP += n
	}
}

// waitsOut is waits for a URL that is out.
func (t *tally) waitsOut(n int64) { t.outD += n }

// fails has the pending URLs share an outcome until then.
func (t *tally) fails(outcome link.Outcome, until int64) { t.down, t.downUntil = outcome, until }

// answers says that the host answers, and whether it did not before.
func (t *tally) answers() bool {
	was := t.down != link.OutcomeNone
	t.down, t.downUntil = link.OutcomeNone, 0
	return was
}

// admit notes what the owner of the registrable domain says of the host.
func (t *tally) admit(v domain.Verdict) { t.admission = v }

// trapped says that the pages of the host bring nothing new any more.
func (t *tally) trapped() { t.trap = true }

// merge takes what another owner has counted and what is not counted anew from its URLs, and says whether that is news.
func (t *tally) merge(in *counters) (news bool) {
	if t.admission.Before(in.admission) {
		t.admission, news = in.admission, true
	}
	for _, n := range []struct{ have, all, in *int64 }{
		{&t.refetched, &t.job.c.refetched, &in.refetched}, {&t.requests, &t.job.c.requests, &in.requests}, {&t.cut, &t.job.c.cut, &in.cut},
	} {
		if more := *n.in - *n.have; more > 0 {
			*n.have += more
			*n.all += more
			news = true
		}
	}
	if in.trap && !t.trap || in.rest > t.rest {
		t.trap, t.rest, news = t.trap || in.trap, max(t.rest, in.rest), true
	}
	return news
}

// leave takes the host out of the sums.
func (t *tally) leave() {
	c := &t.job.c.counters
	c.accepted -= t.accepted
	for i, n := range t.outcomes {
		c.outcomes[i] -= n
	}
	c.delayed -= t.delayed
	c.promised -= t.promised
	c.bytes -= t.bytes
	c.leftOut -= t.leftOut
	c.refetched -= t.refetched
	c.requests -= t.requests
	c.cut -= t.cut
}

// queued counts entries of the outbox that came or went, with their links.
func (s *sums) queued(entries, links int64) {
	s.entries += entries
	s.outbox += links
}
