package owner

import (
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// tally is what is counted of a job on a host. What is summed over the hosts of a job is counted along with it, so the two cannot differ.
type tally struct {
	ondisk.Counters
	job *jobState // has the sums

	out  int64 // leased URLs
	outD int64 // of them, those with a delayed record
	outP int64 // of them, those with a promise
}

// sums are what is counted of a job on the whole peer.
type sums struct {
	ondisk.Counters
	out int64
}

func newTally(js *jobState, c ondisk.Counters) tally { return tally{Counters: c, job: js} }

// both counts on the host and on the peer.
func (t *tally) both(count func(c *ondisk.Counters)) {
	count(&t.Counters)
	count(&t.job.c.Counters)
}

// found counts one more URL of the set.
func (t *tally) found(depth uint32) {
	t.both(func(c *ondisk.Counters) { c.Accepted++ })
	t.shallower(depth)
}

// shallower notes the depth of a URL, and says whether none was as small.
func (t *tally) shallower(depth uint32) bool {
	if depth >= t.MinDepth {
		return false
	}
	t.MinDepth = depth
	return true
}

// requested counts a request that was made, or would have been.
func (t *tally) requested() { t.both(func(c *ondisk.Counters) { c.Requests++ }) }

// concluded counts the outcome of a URL.
func (t *tally) concluded(f *ondisk.Final) { t.both(func(c *ondisk.Counters) { c.Count(f, 1) }) }

// corrected counts another outcome in place of the one that a URL had.
func (t *tally) corrected(had, got *ondisk.Final) {
	t.both(func(c *ondisk.Counters) {
		c.Count(had, -1)
		c.Count(got, 1)
	})
}

// refetchedOne counts a URL that was fetched though it had its outcome.
func (t *tally) refetchedOne() { t.both(func(c *ondisk.Counters) { c.Refetched++ }) }

// waits counts URLs that wait for another try, or do so no more.
func (t *tally) waits(n int64) { t.both(func(c *ondisk.Counters) { c.Delayed += n }) }

// promises counts URLs with a part of the budget, or without it again.
func (t *tally) promises(n int64) { t.both(func(c *ondisk.Counters) { c.Promised += n }) }

// cutOne counts a link that was not taken.
func (t *tally) cutOne() { t.both(func(c *ondisk.Counters) { c.Cut++ }) }

// leased counts a URL that is out under a lease.
func (t *tally) leased(p *ondisk.Pending) { t.lease(p, 1) }

// returned counts one that is out no more.
func (t *tally) returned(p *ondisk.Pending) { t.lease(p, -1) }

func (t *tally) lease(p *ondisk.Pending, n int64) {
	t.out += n
	t.job.c.out += n
	if p.Due > 0 {
		t.outD += n
	}
	if p.Promised {
		t.outP += n
	}
}

// waitsOut is waits for a URL that is out.
func (t *tally) waitsOut(n int64) { t.outD += n }

// fails has the pending URLs share an outcome until then.
func (t *tally) fails(outcome link.Outcome, until int64) { t.Down, t.DownUntil = outcome, until }

// answers says that the host answers, and whether it did not before.
func (t *tally) answers() bool {
	was := t.Down != link.OutcomeNone
	t.Down, t.DownUntil = link.OutcomeNone, 0
	return was
}

// admit notes what the owner of the registrable domain says of the host.
func (t *tally) admit(v domain.Verdict) { t.Admission = v }

// trapped says that the pages of the host bring nothing new any more.
func (t *tally) trapped() { t.Trap = true }

// outgrown says that the host has had the requests of one that grows without end.
func (t *tally) outgrown() { t.Exhausted = true }

// merge takes what another owner has counted and what is not counted anew from its URLs, and says whether that is news.
func (t *tally) merge(in *ondisk.Counters) (news bool) {
	if t.Admission.Before(in.Admission) {
		t.Admission, news = in.Admission, true
	}
	for _, n := range []struct{ have, all, in *int64 }{
		{&t.Refetched, &t.job.c.Refetched, &in.Refetched}, {&t.Requests, &t.job.c.Requests, &in.Requests}, {&t.Cut, &t.job.c.Cut, &in.Cut},
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
	return news
}

// leave takes the host out of the sums.
func (t *tally) leave() {
	c := &t.job.c.Counters
	c.Accepted -= t.Accepted
	for i, n := range t.Outcomes {
		c.Outcomes[i] -= n
	}
	c.Delayed -= t.Delayed
	c.Promised -= t.Promised
	c.Bytes -= t.Bytes
	c.LeftOut -= t.LeftOut
	c.Refetched -= t.Refetched
	c.Requests -= t.Requests
	c.Cut -= t.Cut
}

// sum takes in what is counted of a job of which nothing waits, or takes it out again.
func (s *sums) sum(c *ondisk.Counters, n int64) {
	s.Accepted += n * c.Accepted
	for i, of := range c.Outcomes {
		s.Outcomes[i] += n * of
	}
	s.Bytes += n * c.Bytes
	s.Refetched += n * c.Refetched
	s.LeftOut += n * c.LeftOut
	s.Cut += n * c.Cut
}

// queued counts entries of the outbox that came or went, with their links.
func (s *sums) queued(entries, links int64) {
	s.Entries += entries
	s.Outbox += links
}
