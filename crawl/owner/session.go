package owner

import (
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/leases"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// Session is a [Visit] that is taken in within one step, whatever it takes. Part of a step.
func (o *Owner) Session(from string, m *wire.Session) *wire.SessionReply {
	v := o.Visit(from, m)
	for !v.Go() {
	}
	return v.Reply()
}

// Visit is what a worker says, which is taken in over as many steps as that takes: outcomes first,
// then what it gives back, and in Commit what it asks for. Outcomes are taken of whoever has the
// host or had it, also when the lease is over; the links of a page before its outcome.
type Visit struct {
	owner   *Owner
	session *hosts.Session
	m       *wire.Session
	reply   *leases.Reply
	// What comes next: the lease to renew, the host, its report, and how many of the links of that
	// one went ahead.
	held, host, report int
	went               links.Ahead
	hosts              *links.PageHosts // of the page of that report
	// Taken counts outcomes by job, Unasked those that were left aside: of hosts that the worker
	// never had.
	Taken   map[job.ID]uint64
	Unasked int
}

// Visit begins to take in what a worker says, which must have been validated: its leases are
// renewed, and do not run out as long as the visit is under way, which therefore is to be driven to
// its end. Part of a step.
func (o *Owner) Visit(from string, m *wire.Session) *Visit {
	reply := leases.NewReply(o.Cfg.TTL)
	v := &Visit{owner: o, session: o.leases.Session(from, m), m: m, reply: reply, Taken: make(map[job.ID]uint64)}
	if v.session == nil {
		for _, held := range m.GetHeld() { // whatever holds here, that process is gone
			reply.Revoke(held.GetHost())
		}
		v.held = len(m.GetHeld())
		v.session = &hosts.Session{Peer: from, Leases: map[*hosts.Host]struct{}{}}
		return v
	}
	o.visits.n++
	v.session.Visiting, v.session.Renewing = o.visits.n, true
	return v
}

// Reply is the answer. It is complete after the Commit of the step in which Go said so, and may
// leave after that step's Wait; then all outcomes in hosts that it neither refuses nor moves are on
// disk.
func (v *Visit) Reply() *wire.SessionReply { return v.reply.Message }

// Go goes on with the visit for as long as the step has room, and for one piece in any case, and
// says whether it is through. No other input may come in between, but steps may: what changes with
// time or with the ring has its say with each of them. Part of a step.
func (v *Visit) Go() (through bool) {
	if !v.renew() {
		return false
	}
	for ; v.host < len(v.m.GetHosts()); v.host++ {
		if !v.work(v.m.GetHosts()[v.host]) {
			return false
		}
		v.report, v.went = 0, links.Ahead{}
		if !v.owner.HasRoom() {
			v.host++
			return false
		}
	}
	v.owner.placer.Relieve(v.session)
	v.session.Visiting = 0
	return true
}

// work takes in what is said of a host; false if there is more of it than the step has room for.
func (v *Visit) work(w *wire.HostWork) (through bool) {
	o, s, reply := v.owner, v.session, v.reply
	e := enter(o.hosts, s, w.GetHost(), w.GetEpoch())
	switch e.answer {
	case hosts.Moved:
		reply.Move(w.GetHost())
		return true
	case hosts.Busy:
		reply.Wait(w.GetHost())
		return true
	}
	h, held := e.host, e.held
	told := len(w.GetFetched()) > 0
	if told && !e.heard {
		v.Unasked += len(w.GetFetched())
		told = false
	}
	if told && !o.visits.knowsAll(w) {
		reply.Refuse(w.GetHost())
		return true
	}
	if h == nil {
		if !told {
			reply.Revoke(w.GetHost())
			return true
		}
		h = o.hosts.Open(w.GetHost())
	}
	if told && !v.reports(h, w) {
		return false
	}
	if held { // what is said of the host itself is believed of who has it alone
		o.visits.learn(h, w) // behind the reports: a failure that falls into a back-off is no new one, but it may be what the back-off is for
		if o.Cfg.Fetched != nil {
			o.Cfg.Fetched(h.Rec.Name, h.Rec.Addrs, s.Peer, w)
		}
		o.placer.Calibrate(h, w.GetFetched())
	}
	o.visits.afterReports(s, h, w, held, reply)
	return true
}

// reports takes in the outcomes of a host; false if there are more than the step has room for.
func (v *Visit) reports(h *hosts.Host, w *wire.HostWork) (through bool) {
	for v.report < len(w.GetFetched()) {
		f := w.GetFetched()[v.report]
		if !v.ahead(h, f) {
			return false
		}
		v.take(h, f)
		v.report++
		v.went = links.Ahead{}
		if !v.owner.HasRoom() {
			return false
		}
	}
	return true
}

// take takes in a report, with the links that did not go ahead of it. What the links brought that
// came without an outcome counts with the outcome.
func (v *Visit) take(h *hosts.Host, f *wire.Fetched) {
	o, js := v.owner, v.owner.jobs.Of(job.ID(f.GetJob()))
	before, went := h.Accepted(js), v.went
	page := v.hosts.Of(f)
	if page {
		went.Brought += v.hosts.Brought
	}
	o.outcomes.report(h, v.session.Peer, f, went)
	v.Taken[js.ID]++
	if page && f.GetOutcome() == uint32(link.OutcomeNone) {
		v.hosts.Brought += v.went.Brought + h.Accepted(js) - before
	}
}

// ahead takes in the links of a report before it while they are many; false if they are more than
// the step has room for.
func (v *Visit) ahead(h *hosts.Host, f *wire.Fetched) (through bool) {
	o := v.owner
	js := o.jobs.Of(job.ID(f.GetJob()))
	v.account(js, f)
	if len(f.GetLinks())-v.went.N <= links.LinksAtOnce || link.Host(string(f.GetUrl())) != h.Rec.Name || js.State == job.StateCanceled {
		return true
	}
	page := finalOf(string(f.GetUrl()), v.session.Peer, f)
	if page.Outcome == link.OutcomeNone && page.Kind != link.KindRobots && !wholePiece(f) {
		return true
	}
	o.outcomes.placeOfPage(h, js, link.Hash(js.ID, page.URL), &page)
	if page.Depth != v.went.Depth {
		v.went = links.Ahead{Depth: page.Depth}
	}
	for brought := links.Children(&page, f); len(brought)-v.went.N > links.LinksAtOnce; {
		before := h.Accepted(js)
		o.emitter.ForwardPiece(h, js, page.URL, page.Depth, brought[v.went.N:][:links.LinksAtOnce])
		v.went.N += links.LinksAtOnce
		v.went.Brought += h.Accepted(js) - before
		if !o.HasRoom() {
			return false
		}
	}
	return true
}

// visits deals with what workers say beside outcomes.
type visits struct {
	*hosts.Step
	jobs    *hosts.JobTable
	hosts   *hosts.Table
	agenda  *hosts.Agenda
	leases  *leases.Leases
	placer  *leases.Placer
	granter *leases.Granter
	n       uint64 // that have begun
}

// afterReports serves release, URLs handed back and the wish for more.
func (vs *visits) afterReports(s *hosts.Session, h *hosts.Host, w *wire.HostWork, held bool, reply *leases.Reply) {
	if held && h.Lease == nil { // a failure of the whole host took it away
		held = false
		if !w.GetRelease() {
			reply.Revoke(w.GetHost())
			return
		}
	}
	switch {
	case held && w.GetRelease():
		vs.owe(h, w)
		vs.leases.Returned(h, w.GetReturned())
		vs.leases.End(h, leases.Released, 0)
	case held:
		vs.leases.Returned(h, w.GetReturned())
		if w.GetWant() > 0 {
			vs.granter.Want(h, int(w.GetWant()), reply)
		}
		vs.agenda.Changed(h)
	case w.GetEpoch() == nil && w.GetWant() > 0:
		vs.accepts(s, h, int(w.GetWant()), reply)
	case w.GetRelease():
		vs.agenda.Changed(h)
	case w.GetEpoch() != nil:
		reply.Revoke(w.GetHost())
	}
}

// knowsAll says whether the specs of all jobs reported on are at hand.
func (vs *visits) knowsAll(w *wire.HostWork) bool {
	all := true
	for _, f := range w.GetFetched() {
		if vs.jobs.Known(job.ID(f.GetJob())) == nil {
			all = false
		}
	}
	return all
}

// learn notes what the worker that has a host found out about it.
func (vs *visits) learn(h *hosts.Host, w *wire.HostWork) {
	if len(w.GetAddrs()) > 0 {
		h.Rec.At(w.GetAddrs())
		vs.hosts.Touched(h)
	}
	for _, r := range w.GetRobots() {
		value := ondisk.EncodeRobots(r.GetState())
		if _, err := ondisk.DecodeRobots(value); err == nil && h.HasOrigin(r.GetOrigin()) {
			vs.Buf.Set(ondisk.RobotsKey(h.Pos, r.GetOrigin()), value)
		}
	}
	if w.GetBackoffMs() > 0 {
		wait := min(int64(w.GetBackoffMs()), vs.Cfg.MaxRetryAfter.Milliseconds())
		why := ondisk.Clip(w.GetBackoffReason())
		if strings.HasPrefix(h.Rec.BackoffReason, why) {
			why = h.Rec.BackoffReason // the failure that it is for says more
		}
		h.Rec.BackOff(vs.Now+wait, why)
		vs.hosts.Touched(h)
	}
}

// owe notes the politeness that whoever comes next owes to the host.
func (vs *visits) owe(h *hosts.Host, w *wire.HostWork) {
	owed := min(int64(w.GetOwedMs()), vs.Cfg.MaxRetryAfter.Milliseconds())
	h.Rec.Owe(vs.Now + owed)
}

// accepts deals with a worker that says yes to an offer.
func (vs *visits) accepts(s *hosts.Session, h *hosts.Host, n int, reply *leases.Reply) {
	offered, may := h.Search.OfferedTo(s.Peer), h.Search.Asked(s.Peer)
	if h.Lease != nil && h.Lease.Session == s {
		// It asks for a host that we think it holds: an answer went lost, or it dropped the host.
		// It is the same process.
		vs.leases.End(h, leases.Released, 0)
		may = true
	}
	may = may || vs.hosts.Near(s) && h.Search.State != hosts.SearchOffered
	if h.Lease != nil || s.Incarnation == 0 && s.Heard == 0 || h.Barred(vs.Now) || h.Search.Reserved > 0 || !may || vs.agenda.URLsAt(h) > vs.Now {
		reply.Revoke(h.Rec.Name)
		if offered {
			vs.placer.End(h)
			vs.agenda.Changed(h)
		}
		return
	}
	vs.leases.Begin(h, s)
	vs.granter.Want(h, n, reply)
}

// owesAfter is how long after its last outcome a worker is left a host, with URLs of it, that does
// not stand near: ten times what robots.txt may have it wait between two pages.
const owesAfter = 10 * time.Minute

// owes says whether a host is taken from its worker, which tells nothing of it.
func (vs *visits) owes(h *hosts.Host) bool {
	l := h.Lease
	since := max(l.Owing, h.Rec.NotBefore, h.Rec.BackoffUntil)
	return len(l.Out) > 0 && vs.Now-since > owesAfter.Milliseconds() && !vs.Cfg.IsNear(l.Session.Peer)
}

// renewedAtOnce are the leases that are renewed between two looks at the time.
const renewedAtOnce = 32

// renew renews leases; false if they are more than the step has room for.
func (v *Visit) renew() (through bool) {
	held := v.m.GetHeld()
	for ; v.held < len(held); v.held++ {
		v.owner.visits.renew(v.session, held[v.held], v.reply)
		if (v.held+1)%renewedAtOnce == 0 && !v.owner.HasRoom() {
			v.held++
			return false
		}
	}
	v.session.Renewing = false
	return true
}

// Renew takes in a message that renews leases and does nothing else, at a time of the lease clock.
// The answer lists those that it does not renew. It may come between steps, also while another
// message of the worker is taken in.
func (o *Owner) Renew(now time.Time, from string, m *wire.Session) *wire.SessionReply {
	reply := leases.NewReply(o.Cfg.TTL).Message
	s := o.visits.placer.Sessions[from]
	known := s != nil && s.Incarnation == m.GetIncarnation()
	for _, held := range m.GetHeld() {
		var e entry
		if known { // for an untrusted peer nothing is looked up
			e = enter(o.hosts, s, held.GetHost(), held.GetEpoch())
		}
		if !e.held || o.visits.owes(e.host) {
			reply.NotRenewed = append(reply.NotRenewed, held.GetHost())
			continue
		}
		e.host.Lease.Expires = max(e.host.Lease.Expires, now.Add(o.Cfg.TTL).UnixMilli())
		o.visits.agenda.Changed(e.host)
	}
	return reply
}

// renew prolongs a lease that a worker says it holds, and takes back what went lost with an answer.
func (vs *visits) renew(s *hosts.Session, lease *wire.HostLease, reply *leases.Reply) {
	e := enter(vs.hosts, s, lease.GetHost(), lease.GetEpoch())
	h := e.host
	switch {
	case e.answer == hosts.Moved:
		reply.Move(lease.GetHost())
	case e.answer == hosts.Busy:
		reply.Wait(lease.GetHost())
	case !e.held:
		reply.Revoke(lease.GetHost())
	case vs.owes(h):
		reply.Revoke(lease.GetHost())
		h.Search.Exclude = append(h.Search.Exclude, s.Peer)
		vs.leases.End(h, leases.Released, h.Lease.Expires)
		vs.agenda.Changed(h)
	default:
		h.Lease.Expires, h.Lease.Said = vs.Now+vs.Cfg.TTL.Milliseconds(), s.Visiting
		vs.leases.TakeBackLost(h, s)
		vs.agenda.Changed(h)
	}
}
