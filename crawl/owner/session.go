package owner

import (
	"strings"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/links"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
)

// answer gathers a SessionReply, each host once in each list.
type answer struct {
	m       *wire.SessionReply
	revoked map[string]struct{}
	moved   map[string]struct{}
	refused map[string]struct{}
	bytes   int // of its grants
}

// A frame holds 4 MiB. An answer with more than mostAnswer of grants takes no further one, a grant
// with more than mostURLs of URLs no further URL, and one with more than mostRobots no further host
// whose worker is to be told of a robots.txt of more than smallRobots: it is offered again. Most
// hosts have a small one, and hundreds of them are not to go from hand to hand because of two that
// have not.
const (
	mostAnswer  = 3 << 19
	mostURLs    = 1 << 20
	mostRobots  = 1 << 20
	smallRobots = 4 << 10
)

func (a *answer) revoke(host string) {
	if _, again := a.revoked[host]; !again {
		a.revoked[host] = struct{}{}
		a.m.Revoked = append(a.m.Revoked, host)
	}
}

func (a *answer) move(host string) {
	if _, again := a.moved[host]; !again {
		a.moved[host] = struct{}{}
		a.m.Moved = append(a.m.Moved, host)
	}
}

func (a *answer) refuse(host string) {
	if _, again := a.refused[host]; !again {
		a.refused[host] = struct{}{}
		a.m.Refused = append(a.m.Refused, host)
	}
}

// wait refuses a host and leaves its lease, if there is one, as it is: its records are on their
// way, here or elsewhere.
func (a *answer) wait(host string) {
	if _, again := a.refused[host]; !again {
		a.refuse(host)
		a.m.NotRenewed = append(a.m.NotRenewed, host)
	}
}

// want is a request for URLs, served when the step's reports are all in.
type want struct {
	h     *hosts.Host
	lease *hosts.Lease
	n     int
	reply *answer
}

// want notes a wish, one for each lease in a step: what a grant finds in the store is that from
// before it. Of two the later one counts, since a worker that asks again may have given up on the
// first answer.
func (gr *granter) want(h *hosts.Host, n int, reply *answer) {
	w := want{h, h.Lease, n, reply}
	if at := h.Lease.Want; at > 0 {
		gr.wants[at-1] = w
		return
	}
	gr.wants = append(gr.wants, w)
	gr.Wanted = len(gr.wants)
	h.Lease.Want = gr.Wanted
}

// Session is a [Visit] that is taken in within one step, whatever it takes. Part of a step.
func (o *Owner) Session(from string, m *wire.Session) *wire.SessionReply {
	v := o.Visit(from, m)
	for !v.Go() {
	}
	return v.Reply()
}

// Visit is what a worker says, which is taken in over as many steps as that takes: outcomes first,
// then what it gives back, and in Commit what it asks for. Outcomes are taken whoever reports them,
// also when the lease is over; the links of a page before its outcome.
type Visit struct {
	owner   *Owner
	session *hosts.Session
	m       *wire.Session
	reply   *answer
	// What comes next: the host, its report, and how many of the links of that one went ahead.
	host, report int
	went         links.Ahead
	hosts        *links.PageHosts // of the page of that report
}

// Visit begins to take in what a worker says, which must have been validated: its leases are
// renewed, and do not run out as long as the visit is under way, which therefore is to be driven to
// its end. Part of a step.
func (o *Owner) Visit(from string, m *wire.Session) *Visit {
	reply := &answer{
		m:       &wire.SessionReply{TtlMs: uint32(o.Cfg.TTL.Milliseconds())}, // some seconds
		revoked: make(map[string]struct{}), moved: make(map[string]struct{}), refused: make(map[string]struct{}),
	}
	v := &Visit{owner: o, session: o.leases.session(from, m), m: m, reply: reply}
	if v.session == nil {
		for _, held := range m.GetHeld() { // whatever holds here, that process is gone
			reply.revoke(held.GetHost())
		}
		v.session = &hosts.Session{Peer: from, Leases: map[*hosts.Host]struct{}{}}
		return v
	}
	o.visits.n++
	v.session.Visiting = o.visits.n
	o.visits.renew(v)
	return v
}

// Reply is the answer. It is complete after the Commit of the step in which Go said so, and may
// leave after that step's Wait; then all outcomes in hosts that it neither refuses nor moves are on
// disk.
func (v *Visit) Reply() *wire.SessionReply { return v.reply.m }

// Go goes on with the visit for as long as the step has room, and for one piece in any case, and
// says whether it is through. No other input may come in between, but steps may: what changes with
// time or with the ring has its say with each of them. Part of a step.
func (v *Visit) Go() (through bool) {
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
	v.owner.placer.relieve(v.session)
	v.session.Visiting = 0
	return true
}

// work takes in what is said of a host; false if there is more of it than the step has room for.
func (v *Visit) work(w *wire.HostWork) (through bool) {
	o, s, reply := v.owner, v.session, v.reply
	e := enter(o.hosts, s, w.GetHost(), w.GetEpoch())
	switch e.answer {
	case hosts.Moved:
		reply.move(w.GetHost())
		return true
	case hosts.Busy:
		reply.wait(w.GetHost())
		return true
	}
	if !o.visits.knowsAll(w) {
		reply.refuse(w.GetHost())
		return true
	}
	h, held := e.host, e.held
	if h == nil {
		if len(w.GetFetched()) == 0 {
			reply.revoke(w.GetHost())
			return true
		}
		h = o.hosts.Open(w.GetHost())
	}
	if !v.reports(h, w) {
		return false
	}
	o.visits.learn(h, w, held) // behind the reports: a failure that falls into a back-off is no new one, but it may be what the back-off is for
	if len(w.GetFetched()) > 0 {
		o.placer.calibrate(h, w.GetFetched())
		if o.Cfg.Fetched != nil {
			o.Cfg.Fetched(h.Rec.Name, h.Rec.Addrs, s.Peer, w.GetFetched())
		}
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
	leases  *leases
	placer  *placer
	granter *granter
	n       uint64 // that have begun
}

// afterReports serves release, URLs handed back and the wish for more.
func (vs *visits) afterReports(s *hosts.Session, h *hosts.Host, w *wire.HostWork, held bool, reply *answer) {
	if held && h.Lease == nil { // a failure of the whole host took it away
		held = false
		if !w.GetRelease() {
			reply.revoke(w.GetHost())
			return
		}
	}
	switch {
	case held && w.GetRelease():
		vs.owe(h, w)
		vs.leases.returned(h, w.GetReturned())
		vs.leases.end(h, released, 0)
	case held:
		vs.leases.returned(h, w.GetReturned())
		if w.GetWant() > 0 {
			vs.granter.want(h, int(w.GetWant()), reply)
		}
		vs.agenda.Changed(h)
	case w.GetEpoch() == nil && w.GetWant() > 0:
		vs.accepts(s, h, int(w.GetWant()), reply)
	case w.GetRelease():
		vs.agenda.Changed(h)
	case w.GetEpoch() != nil:
		reply.revoke(w.GetHost())
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

// learn notes what a worker found out about a host.
func (vs *visits) learn(h *hosts.Host, w *wire.HostWork, held bool) {
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
	if held && w.GetBackoffMs() > 0 {
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

// returned takes URLs back that the worker did not touch.
func (ls *leases) returned(h *hosts.Host, list []*wire.Unfetched) {
	for _, u := range list {
		it := h.Lease.Item(u.GetHash())
		if it == nil || it.Job.State.ID != job.ID(u.GetJob()) {
			continue
		}
		delete(h.Lease.Out, u.GetHash())
		ls.takeBack(it, untouched)
	}
}

// accepts deals with a worker that says yes to an offer.
func (vs *visits) accepts(s *hosts.Session, h *hosts.Host, n int, reply *answer) {
	if h.Lease != nil && h.Lease.Session == s {
		// It asks for a host that we think it holds: an answer went lost, or it dropped the host.
		// It is the same process.
		vs.leases.end(h, released, 0)
	}
	offered := h.Search.OfferedTo(s.Peer)
	if h.Lease != nil || s.Incarnation == 0 && s.Heard == 0 || h.Barred(vs.Now) || h.Search.Reserved > 0 || !offered && h.Search.State == hosts.SearchOffered || vs.agenda.URLsAt(h) > vs.Now {
		reply.revoke(h.Rec.Name)
		if offered {
			vs.placer.end(h)
			vs.agenda.Changed(h)
		}
		return
	}
	vs.leases.begin(h, s)
	vs.granter.want(h, n, reply)
}

// renew prolongs the leases that a worker says it holds, and takes back what went lost with an
// answer.
func (vs *visits) renew(v *Visit) {
	s, reply := v.session, v.reply
	for _, lease := range v.m.GetHeld() {
		e := enter(vs.hosts, s, lease.GetHost(), lease.GetEpoch())
		switch e.answer {
		case hosts.Moved:
			reply.move(lease.GetHost())
			continue
		case hosts.Busy:
			reply.wait(lease.GetHost())
			continue
		}
		if !e.held {
			reply.revoke(lease.GetHost())
			continue
		}
		h := e.host
		h.Lease.Expires, h.Lease.Said = vs.Now+vs.Cfg.TTL.Milliseconds(), s.Visiting
		vs.leases.takeBackLost(h, s)
		vs.agenda.Changed(h)
	}
}
