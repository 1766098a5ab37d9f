package owner

import (
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
)

// review is a look at the hosts in memory, because of something that may concern any of them: some
// with each step, as there may be tens of thousands.
type review struct {
	list  []*hosts.Host // still to be looked at
	about concern
	// next is what came up since the review began: another one follows.
	next concern
}

// concern is whom a review is about.
type concern struct {
	all     bool
	optOuts bool // whether hosts are on the list of those that opted out may have changed
	jobs    map[*hosts.JobState]struct{}
}

// reviewedAtOnce bounds the hosts that a step looks at.
const reviewedAtOnce = 1024

func (c *concern) some() bool { return c.all || len(c.jobs) > 0 }

// of says whether a host is one of those.
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

// reviewer has hosts looked at anew when something beside them has changed.
type reviewer struct {
	*hosts.Step
	hosts  *hosts.Table
	agenda *hosts.Agenda
	placer *leases.Placer
	leases *leases.Leases
	intake *links.Intake
	review review
}

// all has all hosts in memory looked at.
func (rv *reviewer) all(optOuts bool) {
	c := &rv.review.next
	c.all, c.optOuts = true, c.optOuts || optOuts
}

// job has the hosts in memory looked at that have URLs of a job.
func (rv *reviewer) job(js *hosts.JobState) {
	c := &rv.review.next
	if c.jobs == nil {
		c.jobs = make(map[*hosts.JobState]struct{})
	}
	c.jobs[js] = struct{}{}
}

// reviewing says whether there are hosts to be looked at.
func (r *review) reviewing() bool { return len(r.list) > 0 || r.next.some() }

// some looks at the next hosts.
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
		case !h.Kept(): // it was dropped meanwhile
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
