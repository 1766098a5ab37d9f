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

// Session processes a [Visit] within one step, regardless of its size. Part of a step.
func (o *Owner) Session(from string, m *wire.Session) *wire.SessionReply {
	v := o.Visit(from, m)
	for !v.Go() {
	}
	return v.Reply()
}

// Visit processes a worker's message over one or more steps: outcomes first, then returned URLs,
// and in Commit its requests. Outcomes are accepted from the current and from recent workers of a
// host, also after the lease; the links of a page are stored before its outcome.
type Visit struct {
	owner   *Owner
	session *hosts.Session
	m       *wire.Session
	reply   *leases.Reply
	// Position: the lease to renew, the host, its report, and the number of links of that report
	// already processed.
	held, host, report int
	went               links.Ahead
	hosts              *links.PageHosts // of the page of that report
	// Taken counts outcomes of first visits by job, Unasked rejected outcomes of hosts that the worker
	// never had.
	Taken   map[job.ID]uint64
	Unasked int
	receipt []byte // lines of the accepted pages
}

// Visit begins to process a validated message of a worker. Its leases are renewed, and do not
// expire during the visit, which therefore must be driven to its end. Part of a step.
func (o *Owner) Visit(from string, m *wire.Session) *Visit {
	reply := leases.NewReply(o.Cfg.TTL)
	v := &Visit{owner: o, session: o.leases.Session(from, m), m: m, reply: reply, Taken: make(map[job.ID]uint64)}
	if v.session == nil {
		for _, held := range m.GetHeld() { // leases of that process that are held here have ended with it
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

// Reply returns the reply. It is complete after the Commit of the step in which Go returned true,
// and may be sent after that step's Wait; then all outcomes of hosts that it neither refuses nor
// moves are on disk.
func (v *Visit) Reply() *wire.SessionReply { return v.reply.Message }

// Go processes at least one piece, more while the step has capacity, and reports whether the visit
// is complete. No other input may come in between, but steps may: changes of time and ring apply in
// each of them. Part of a step.
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
	if cfg := &v.owner.Cfg; len(v.receipt) > 0 && cfg.Sign != nil {
		v.reply.Message.Receipt = cfg.Sign(wire.SignedReceipt(v.session.Peer, v.receipt))
	}
	v.owner.placer.Relieve(v.session)
	v.session.Visiting = 0
	return true
}

// work processes the work of a host; false if it exceeds the step's capacity.
func (v *Visit) work(w *wire.HostWork) (through bool) {
	o, s, reply := v.owner, v.session, v.reply
	var by *wire.Certificate
	if len(w.GetFetched()) > 0 {
		by = w.GetCertificate()
	}
	e := enter(o.hosts, s, w.GetHost(), w.GetEpoch(), by)
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
	if held { // state of the host itself is accepted from its current worker only
		o.visits.learn(h, w) // after the reports: a failure within a backoff is not new, but may be its cause
		if o.Cfg.Fetched != nil {
			o.Cfg.Fetched(h.Rec.Name, h.Rec.Addrs, s.Peer, w)
		}
		o.placer.Calibrate(h, w.GetFetched())
	}
	o.visits.afterReports(s, h, w, held, reply)
	return true
}

// reports processes the outcomes of a host; false if they exceed the step's capacity.
func (v *Visit) reports(h *hosts.Host, w *wire.HostWork) (through bool) {
	for v.report < len(w.GetFetched()) {
		f := w.GetFetched()[v.report]
		if !v.ahead(h, f) {
			return false
		}
		v.take(h, f)
		if v.owner.checks.Samples() && len(f.GetRecordId()) > 0 {
			v.receipt = wire.ReceiptLine(v.receipt, w, f)
		}
		v.report++
		v.went = links.Ahead{}
		if !v.owner.HasRoom() {
			return false
		}
	}
	return true
}

// take processes a report with its remaining links. New URLs from links that came without an
// outcome count for the outcome.
func (v *Visit) take(h *hosts.Host, f *wire.Fetched) {
	o, js := v.owner, v.owner.jobs.Of(job.ID(f.GetJob()))
	before, went := h.Accepted(js), v.went
	page := v.hosts.Of(f)
	if page {
		went.Brought += v.hosts.Brought
	}
	o.outcomes.report(h, v.session.Peer, f, went)
	if !f.GetAgain() { // what a later visit brings is in Accepted or in an outbox
		v.Taken[js.ID]++
	}
	if page && f.GetOutcome() == uint32(link.OutcomeNone) {
		v.hosts.Brought += v.went.Brought + h.Accepted(js) - before
	}
}

// ahead processes many links of a report before the report itself; false if they exceed the step's
// capacity.
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
	o.outcomes.placeOfPage(h, js, link.Hash(js.ID, page.URL), &page, f)
	for brought := links.Children(&page, f); len(brought)-v.went.N > links.LinksAtOnce; {
		before := h.Accepted(js)
		o.emitter.ForwardPiece(h, js, &page, brought[v.went.N:][:links.LinksAtOnce])
		v.went.N += links.LinksAtOnce
		v.went.Brought += h.Accepted(js) - before
		if !o.HasRoom() {
			return false
		}
	}
	return true
}

// visits processes the parts of worker messages other than outcomes.
type visits struct {
	*hosts.Step
	jobs    *hosts.JobTable
	hosts   *hosts.Table
	agenda  *hosts.Agenda
	leases  *leases.Leases
	placer  *leases.Placer
	granter *leases.Granter
	checks  *hosts.Checks
	n       uint64 // visits begun
}

// afterReports processes release, returned URLs and the request for more.
func (vs *visits) afterReports(s *hosts.Session, h *hosts.Host, w *wire.HostWork, held bool, reply *leases.Reply) {
	if held && h.Lease == nil { // ended by a failure of the whole host
		held = false
		if !w.GetRelease() {
			reply.Revoke(w.GetHost())
			return
		}
	}
	switch {
	case held && w.GetRelease():
		owed := min(int64(w.GetOwedMs()), vs.Cfg.MaxRetryAfter.Milliseconds())
		h.Rec.Owe(vs.Now + owed)
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

// knowsAll reports whether the specs of all jobs in the reports are available.
func (vs *visits) knowsAll(w *wire.HostWork) bool {
	all := true
	for _, f := range w.GetFetched() {
		if vs.jobs.Known(job.ID(f.GetJob())) == nil {
			all = false
		}
	}
	return all
}

// learn stores the host state that its worker reports.
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
			why = h.Rec.BackoffReason // the failure that caused it is more specific
		}
		h.Rec.BackOff(vs.Now+wait, why)
		vs.hosts.Touched(h)
	}
}

// accepts processes a worker's acceptance of an offer.
func (vs *visits) accepts(s *hosts.Session, h *hosts.Host, n int, reply *leases.Reply) {
	offered, may := h.Search.OfferedTo(s.Peer), h.Search.Asked(s.Peer)
	if h.Lease != nil && h.Lease.Session == s {
		// It requests a host that it holds by our records: a reply was lost, or it dropped the host. It
		// is the same process.
		vs.leases.End(h, leases.Released, 0)
		may = true
	}
	// Without another worker this peer fetches itself, even if its network forges pages.
	may = (may || vs.Cfg.IsNear(s.Peer) && h.Search.State != hosts.SearchOffered) && (s.Peer == vs.Cfg.Self || !vs.checks.Suspends(s.Peer))
	if h.Lease != nil || s.Incarnation == 0 && s.Heard == 0 || h.Barred(vs.Now) || h.Search.Reserved > 0 || !may || !h.Search.Check && vs.agenda.URLsAt(h) > vs.Now {
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

// owesAfter is how long after its last outcome an untrusted worker keeps a host with URLs out: ten
// times the crawl delay that robots.txt may set.
const owesAfter = 10 * time.Minute

// owes reports whether a host is taken from its worker for lack of reports.
func (vs *visits) owes(h *hosts.Host) bool {
	l := h.Lease
	since := max(l.Owing, h.Rec.NotBefore, h.Rec.BackoffUntil)
	return len(l.Out) > 0 && vs.Now-since > owesAfter.Milliseconds() && !vs.Cfg.IsNear(l.Session.Peer)
}

// renewedAtOnce is the number of leases renewed between two checks of the step's capacity.
const renewedAtOnce = 32

// renew renews leases; false if they exceed the step's capacity.
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

// Renew processes a message that only renews leases, at a lease-clock time. The reply lists the
// leases that were not renewed. It may be called between steps, also while another message of the
// worker is processed.
func (o *Owner) Renew(now time.Time, from string, m *wire.Session) *wire.SessionReply {
	reply := leases.NewReply(o.Cfg.TTL).Message
	s := o.visits.placer.Sessions[from]
	known := s != nil && s.Incarnation == m.GetIncarnation()
	for _, held := range m.GetHeld() {
		var e entry
		if known { // no lookup for an untrusted peer
			e = enter(o.hosts, s, held.GetHost(), held.GetEpoch(), nil)
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

// renew extends a lease that a worker lists as held, and takes back URLs of lost replies.
func (vs *visits) renew(s *hosts.Session, lease *wire.HostLease, reply *leases.Reply) {
	e := enter(vs.hosts, s, lease.GetHost(), lease.GetEpoch(), nil)
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
