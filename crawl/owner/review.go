package owner

import (
	"slices"

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
	return c.all || slices.ContainsFunc(h.Jobs, func(hj *hosts.Job) bool {
		_, ok := c.jobs[hj.State]
		return ok && (hj.Tally.Open() > 0 || hj.NextVisit() != hosts.Never)
	})
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

// Placed applies the reply to a Place. Part of a step.
func (o *Owner) Placed(name string, p hosts.Placement) {
	h := o.hosts.ByName[name]
	if h == nil || h.Search.State != hosts.SearchAsked {
		return
	}
	o.placer.Unreserve(h, p.NotBefore)
	if !o.Ring.Mine(h.Key) || !o.Cfg.Settled(h.Key) {
		o.placer.End(h)
		o.agenda.Changed(h)
		return
	}
	switch {
	case p.Worker == "" && h.Search.Check: // no worker can make the check
		next := h.CheckDue()
		o.checks.Unclear(h, func(c *hosts.Check) bool { return c == next })
		h.Search.Exclude = nil
		o.placer.End(h)
		o.agenda.Changed(h)
		return
	case p.Worker == "":
		p.Worker = o.Cfg.Self
	}
	if h.Search.Anew != "" {
		p.Why += "; " + h.Search.Anew
	}
	if !h.Search.Check && h.Rec.PlacedBy(p.Worker, p.Why, p.Measured, o.Now) {
		o.hosts.Touched(h)
	}
	h.Search.Found(&p)
	o.placer.Offer(h, p.Worker)
	o.agenda.Changed(h)
}

// Declined records that a worker declined hosts or could not be reached. Part of a step.
func (o *Owner) Declined(worker string, hosts []string) {
	for _, name := range hosts {
		if h := o.hosts.ByName[name]; h != nil && h.Search.OfferedTo(worker) {
			o.placer.Declined(h, worker)
			o.agenda.Changed(h)
		}
	}
}

const (
	// unreadAfter is the delay in ms until a lease whose renewal may be queued is checked again.
	unreadAfter = 50
)

// evaluate performs the due actions of a host.
func (o *Owner) evaluate(h *hosts.Host) {
	if h.Frozen <= o.Now {
		h.Thaw()
	}
	switch {
	case !h.Lapsed(o.Now):
	case h.Lease.SpokenOf():
		h.Lease.Expires = o.Now + o.Cfg.TTL.Milliseconds()
	case h.Lease.Expires > o.Read:
		h.Lease.LookAt = o.Now + unreadAfter
	default:
		h.Rec.Owe(o.OwedAfter(h.Lease.Expires))
		o.leases.End(h, o.leases.Lapse(h.Lease), 0)
	}
	if h.Search.State != hosts.SearchIdle && h.Search.Until <= o.Now {
		o.placer.Declined(h, h.Search.Offered)
	}
	if o.agenda.MayBePlaced(h) {
		o.agenda.Searches.Queue.Add(h) // queued domains are served in turn
	}
	o.agenda.Changed(h)
}

// SettledChanged applies a change of the ring or of [Config.Settled]: all hosts in memory are
// reevaluated. Part of a step; with thousands of hosts it takes several.
func (o *Owner) SettledChanged() {
	o.reviewer.all(false)
	o.hosts.Sweep.Wanted, o.hosts.Sweep.Cursor, o.hosts.Sweep.NextAt = true, nil, 0
}

// PeerDead records that a peer is unreachable: no more hosts are offered to it. Its leases expire
// by themselves, since a partitioned worker may still crawl. Part of a step.
func (o *Owner) PeerDead(peer string) {
	s := o.placer.Sessions[peer]
	if s == nil {
		return
	}
	for len(s.Offers) > 0 {
		h := s.Offers[0]
		o.placer.Declined(h, peer)
		o.agenda.Changed(h)
	}
	if len(s.Leases) == 0 {
		delete(o.placer.Sessions, peer)
	}
}
