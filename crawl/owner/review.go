package owner

// review is a look at the hosts in memory, because of something that may concern any of them: some
// with each step, as there may be tens of thousands.
type review struct {
	list  []*host // still to be looked at
	about concern
	// next is what came up since the review began: another one follows.
	next concern
}

// concern is whom a review is about.
type concern struct {
	all     bool
	optOuts bool // whether hosts are on the list of those that opted out may have changed
	jobs    map[*jobState]struct{}
}

// reviewedAtOnce bounds the hosts that a step looks at.
const reviewedAtOnce = 1024

func (c *concern) some() bool { return c.all || len(c.jobs) > 0 }

// of says whether a host is one of those.
func (c *concern) of(h *host) bool {
	if c.all {
		return true
	}
	for _, hj := range h.jobs {
		if _, ok := c.jobs[hj.state]; ok && hj.Tally.Open() > 0 {
			return true
		}
	}
	return false
}

// reviewer has hosts looked at anew when something beside them has changed.
type reviewer struct {
	*step
	hosts  *hostTable
	agenda *agenda
	placer *placer
	leases *leases
	intake *intake
	review review
}

// all has all hosts in memory looked at.
func (rv *reviewer) all(optOuts bool) {
	c := &rv.review.next
	c.all, c.optOuts = true, c.optOuts || optOuts
}

// job has the hosts in memory looked at that have URLs of a job.
func (rv *reviewer) job(js *jobState) {
	c := &rv.review.next
	if c.jobs == nil {
		c.jobs = make(map[*jobState]struct{})
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
		r.list = make([]*host, 0, len(rv.hosts.byName))
		for _, l := range []*lru{&rv.hosts.busy, &rv.hosts.idle} {
			for h := l.oldest; h != nil; h = h.newer {
				r.list = append(r.list, h)
			}
		}
	}
	n := min(reviewedAtOnce, len(r.list))
	for _, h := range r.list[:n] {
		switch {
		case !h.kept(): // it was dropped meanwhile
		case r.about.optOuts && rv.cfg.OptOuts.Host(h.rec.Name) != "":
			rv.optOutChanged(h)
		case r.about.of(h):
			rv.agenda.changed(h)
		}
	}
	if r.list = r.list[n:]; len(r.list) == 0 {
		r.list = nil
	}
}
