package owner

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trust"
	"github.com/apoidea/apoidea/crawl/wire"
)

// opinionOf converts a worker's report for a comparison.
func opinionOf(got *ondisk.Final, f *wire.Fetched) trust.Opinion {
	return trust.Opinion{
		Worker: got.Holder, Outcome: got.Outcome, Status: got.Status, Target: got.Target(),
		Digest: got.Digest, Content: f.GetContent(), Words: f.GetWordsSimhash(), Links: f.GetLinksSimhash(),
	}
}

// checked processes the outcome of a page that was fetched again for a check.
func (oc *outcomes) checked(h *hosts.Host, c *hosts.Check, got *ondisk.Final, f *wire.Fetched) {
	c.Out = false
	c.Job.Requested()
	if !slices.Contains(h.Checks, c) {
		return // it ended while it was out: the worker has lost another one
	}
	o := opinionOf(got, f)
	if !o.Conclusive() {
		if c.Try >= hosts.MaxCheckTries {
			oc.checks.Unclear(h, func(other *hosts.Check) bool { return other == c })
		}
		return
	}
	c.Try = 0
	first := c.Opinions[0].Worker
	result, loser := c.Add(o)
	if result == trust.Agreed || result == trust.Lost && loser != first {
		oc.checks.Workers.Of(first).Agreed++
		oc.checks.Workers.Store(first)
	}
	switch result {
	case trust.Open:
		oc.agenda.Changed(h)
	case trust.Agreed:
		oc.checks.End(h, c)
	case trust.Unclear:
		oc.checks.Unclear(h, func(other *hosts.Check) bool { return other == c })
	case trust.Lost:
		oc.checks.End(h, c)
		oc.distrust(loser)
	}
}

// distrust ends the leases of a worker that lost a check, and makes its pages of unfinished jobs
// pending again. Its lease certificates are void from now on (reportsOf).
func (oc *outcomes) distrust(loser string) {
	oc.checks.Workers.Of(loser).Lose(uint64(max(oc.Now/1000, 0)))
	oc.checks.Workers.Store(loser)
	if s := oc.leases.SessionOf(loser); s != nil {
		for _, h := range s.Held() {
			oc.leases.End(h, leases.Released, h.Lease.Expires)
			oc.agenda.Changed(h)
		}
	}
	for _, h := range oc.hosts.ByPos {
		if len(h.Checks) == 0 {
			continue
		}
		oc.checks.Unclear(h, func(c *hosts.Check) bool { return c.Opinions[0].Worker == loser })
		for _, c := range h.Checks {
			c.Opinions = slices.DeleteFunc(c.Opinions, func(o trust.Opinion) bool { return o.Worker == loser })
		}
	}
	for _, js := range oc.jobs.Order {
		if js.Known && js.State != job.StateCanceled && js.State != job.StateDone {
			oc.scans.Reset(js, loser)
		}
	}
}

// Workers returns what this owner knows of the workers of its hosts, by worker.
func (bk *books) Workers() map[string]trust.Worker { return bk.checks.Workers.All() }
