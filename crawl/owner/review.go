package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
)

// review reevaluates the hosts in memory after a change that may affect any of them, a bounded
// number per step, since there may be tens of thousands.
type review struct {
	list  []*hosts.Host // still to be evaluated
	about concern
	// next holds changes since the review began, for a following review.
	next concern
}

// concern selects the hosts of a review.
type concern struct {
	all     bool
	optOuts bool // the list of opted-out hosts may have changed
	jobs    map[*hosts.JobState]struct{}
}

// reviewedAtOnce bounds the hosts evaluated in one step.
const reviewedAtOnce = 1024

func (c *concern) some() bool { return c.all || len(c.jobs) > 0 }

// of reports whether a host is selected.
func (c *concern) of(h *hosts.Host) bool {
	if c.all {
		return true
	}
	for _, hj := range h.Jobs {
		if _, ok := c.jobs[hj.State]; ok && hj.Tally.Open() > 0 {
			return true
		}
	}
	return false
}

// reviewer reevaluates hosts after an external change.
type reviewer struct {
	*hosts.Step
	hosts  *hosts.Table
	agenda *hosts.Agenda
	placer *leases.Placer
	leases *leases.Leases
	intake *links.Intake
	review review
}

// all starts a review of all hosts in memory.
func (rv *reviewer) all(optOuts bool) {
	c := &rv.review.next
	c.all, c.optOuts = true, c.optOuts || optOuts
}

// job starts a review of the hosts in memory that have URLs of a job.
func (rv *reviewer) job(js *hosts.JobState) {
	c := &rv.review.next
	if c.jobs == nil {
		c.jobs = make(map[*hosts.JobState]struct{})
	}
	c.jobs[js] = struct{}{}
}

// reviewing reports whether hosts are still to be evaluated.
func (r *review) reviewing() bool { return len(r.list) > 0 || r.next.some() }

// some evaluates the next hosts.
func (rv *reviewer) some() {
	r := &rv.review
	if len(r.list) == 0 {
		if !r.next.some() {
			return
		}
		r.about, r.next = r.next, concern{}
		r.list = make([]*hosts.Host, 0, len(rv.hosts.ByName))
		for _, l := range []*hosts.Lru{&rv.hosts.Busy, &rv.hosts.Idle} {
			for h := l.Oldest; h != nil; h = h.Newer {
				r.list = append(r.list, h)
			}
		}
	}
	n := min(reviewedAtOnce, len(r.list))
	for _, h := range r.list[:n] {
		switch {
		case !h.Kept(): // evicted meanwhile
		case r.about.optOuts && rv.Cfg.OptOuts.Host(h.Rec.Name) != "":
			rv.optOutChanged(h)
		case r.about.of(h):
			rv.agenda.Changed(h)
		}
	}
	if r.list = r.list[n:]; len(r.list) == 0 {
		r.list = nil
	}
}
