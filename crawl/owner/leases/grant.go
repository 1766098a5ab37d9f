package leases

import (
	"slices"

	"github.com/apoidea/apoidea/crawl/fresh"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ledger"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
	"google.golang.org/protobuf/proto"
)

// Granter grants requested URLs to workers.
type Granter struct {
	*hosts.Step
	jobs   *hosts.JobTable
	agenda *hosts.Agenda
	traps  *hosts.Traps
	leases *Leases
	wants  []want // of this step
}

// want is a request for URLs, served after all reports of the step.
type want struct {
	h     *hosts.Host
	lease *hosts.Lease
	n     int
	reply *Reply
}

// Want queues a request for URLs; at most one per lease and step, because grants read the store as
// of the start of the step. The later of two is served, since the worker may have given up on the
// reply to the first.
func (gr *Granter) Want(h *hosts.Host, n int, reply *Reply) {
	w := want{h, h.Lease, n, reply}
	if at := h.Lease.Want; at > 0 {
		gr.wants[at-1] = w
		return
	}
	gr.wants = append(gr.wants, w)
	gr.Wanted += max(min(n, gr.Cfg.Window), requestURLs)
	h.Lease.Want = len(gr.wants)
}

// requestURLs is the least number of URLs that a request counts for in the limit of a step.
const requestURLs = 8

// All serves the requests of the step. Everything before is flushed, since pending records are read
// from the store.
func (gr *Granter) All() {
	for _, w := range gr.wants {
		w.lease.Want = 0
		switch {
		case w.h.Lease != w.lease:
			w.reply.Revoke(w.h.Rec.Name)
		case w.h.Frozen > 0: // the worker repeats its request, here or at the next owner
		case w.reply.bytes <= mostAnswer:
			gr.grant(w.h, w.n, w.reply)
		case w.lease.Fresh: // the worker has not received the lease; for a known lease it repeats the request
			gr.leases.End(w.h, Released, 0)
			w.reply.Revoke(w.h.Rec.Name)
		}
	}
	clear(gr.wants)
	gr.wants, gr.Wanted = gr.wants[:0], 0
}

// grant grants a worker URLs of a host by depth and arrival, with a share of delayed ones that are
// due, and serves the host's jobs in turn.
func (gr *Granter) grant(h *hosts.Host, n int, reply *Reply) {
	l := h.Lease
	if !l.Check && !h.Search.Replace && h.ChecksPress(gr.Now) {
		h.Search.Again(anewChecked)
	}
	g := &wire.Grant{Host: h.Rec.Name, Epoch: l.Epoch.Wire(), GiveBack: h.Search.Replace}
	n = min(n, gr.Cfg.Window-len(l.Out), wire.MaxGrant)
	if l.Bounded {
		n = min(n, l.Left)
	}
	if len(l.Out) == 0 {
		l.Owing = gr.Now
	}
	left := 0 // URLs visited and not granted
	if l.Check {
		gr.fillChecks(h, n, g)
		g.GiveBack = true
	} else if n > 0 && !h.Search.Replace && gr.agenda.URLsAt(h) <= gr.Now {
		left = gr.fill(h, n, g)
	}
	if l.Left -= len(g.GetUrl()); l.Bounded && l.Left <= 0 {
		g.GiveBack = true // after the current URLs; the next worker is chosen then
	}
	g.More = !g.GetGiveBack() && (gr.agenda.URLsAt(h) <= gr.Now || h.Starved())
	if l.Fresh && len(g.GetUrl()) == 0 {
		if left == 0 {
			h.Search.Pause(gr.Now)
		}
		gr.leases.End(h, Released, 0)
		reply.Revoke(h.Rec.Name)
		return
	}
	f := max(l.Pace, 1)
	if paced := max(l.Told, 1); f > paced || f < paced {
		g.PacePct = uint32(min(f*100, wire.MaxPacePct))
		l.Told = f
	}
	if l.Fresh {
		l.Fresh = false
		gr.introduce(h, g)
	}
	if len(g.GetUrl()) > 0 {
		l.Last = l.Session.Seq
	}
	reply.Message.Grants = append(reply.Message.Grants, g)
	reply.bytes += proto.Size(g)
	gr.agenda.Changed(h)
}

// introduce adds the host state for a new worker.
func (gr *Granter) introduce(h *hosts.Host, g *wire.Grant) {
	until := gr.PoliteAt(h)
	if h.Rec.BackoffUntil > until {
		until, g.BackoffReason = h.Rec.BackoffUntil, ondisk.Clip(h.Rec.BackoffReason) // imported records may exceed the limit
	}
	g.NotBeforeMs = uint32(min(max(until-gr.Now, 0), 1<<31))
	g.Addrs, g.Signature = h.Rec.Addrs, h.Lease.Signed
}

// fill adds up to n URLs to a grant, and returns the number of URLs it skipped.
func (gr *Granter) fill(h *hosts.Host, n int, g *wire.Grant) int {
	f := filler{Granter: gr, h: h, g: g, room: n}
	jobs := len(h.Jobs)
	first := h.Turn
	h.Turn++
	for round := 0; round < 2 && !f.full(); round++ {
		// In the first round each job gets an equal share, in the second the remaining space goes to the
		// jobs in order.
		share := (f.room + jobs - 1) / jobs
		for i := range jobs {
			hj := h.Jobs[(first+i)%jobs]
			limit := share
			if round == 1 {
				limit = f.room
			}
			f.job(hj, min(limit, f.room))
		}
		if jobs == 1 {
			break
		}
	}
	f.sources()
	return len(f.gone)
}

// fillChecks adds the pages that a worker fetches again to check the reports of others. It cannot
// distinguish them from other pages.
func (gr *Granter) fillChecks(h *hosts.Host, n int, g *wire.Grant) {
	f := filler{Granter: gr, h: h, g: g, room: n, column: -1}
	for _, c := range slices.Clone(h.Checks) {
		if c.Out || slices.Contains(c.Involved(), h.Lease.Session.Peer) || f.full() {
			continue
		}
		had, ok := c.Job.Entry(c.Hash)
		if !ok || !had.Done || !c.Job.State.State.Grants() || gr.RequestsLeft(c.Job) <= 0 || f.Cfg.OptOuts.URL(had.Final.URL) != "" || h.Lease.Item(c.Hash) != nil || !c.Granted() {
			gr.leases.checks.Unclear(h, func(other *hosts.Check) bool { return other == c })
			continue
		}
		f.column = slices.IndexFunc(g.GetJobIds(), func(id []byte) bool { return job.ID(id) == c.Job.State.ID })
		it := again(c.Job, c.Hash, &had.Final)
		it.Check, it.Due, it.Seq = c, 0, h.Lease.Session.Seq
		f.put(c.Job, &it.Pending)
		it.URL = ""
		h.Lease.Out[c.Hash] = it
	}
	f.sources()
}

// sources adds the sources of the granted URLs. Most neighbors share theirs, which is read once.
func (f *filler) sources() {
	var t wire.SourceTable
	for i, via := range f.vias {
		t.Add(f.Sources.Of(f.h.Pos, job.ID(f.g.GetJobIds()[f.g.GetJob()[i]]), via))
	}
	f.g.Sources, f.g.Source = t.Columns()
}

// filler fills one grant.
type filler struct {
	*Granter
	h       *hosts.Host
	g       *wire.Grant
	room    int
	bytes   int                 // size of the URLs
	alone   bool                // nothing else may be granted
	waiting int                 // sitemaps that wait for others
	gone    map[uint64]struct{} // concluded here and possibly still in the store
	column  int                 // index of the current job in the grant's table
	vias    []uint64            // of the URLs
}

func (f *filler) full() bool {
	return f.room <= 0 || f.alone || f.bytes > mostURLs || f.column < 0 && len(f.g.GetJobIds()) == wire.MaxJobs
}

// job grants up to limit URLs of one job.
func (f *filler) job(hj *hosts.Job, limit int) {
	f.column = -1
	if limit <= 0 || f.full() {
		return
	}
	before := f.room
	f.visits(hj, limit)
	if limit -= before - f.room; limit <= 0 || f.full() || f.agenda.JobAt(f.h, hj) > f.Now {
		return
	}
	late := limit
	if hj.Tally.Ready() > 0 {
		hj.Late = min(hj.Late+limit, lateMost)
		late = min(limit, hj.Late/lateShare)
	}
	n := f.scan(hj, late, true)
	hj.Late -= min(n*lateShare, hj.Late)
	limit -= n
	limit -= f.scan(hj, limit, false)
	f.scan(hj, limit, true)
}

// visits grants up to limit URLs of one job that are fetched again. While others wait for their
// first visit, they have a share of the grant.
func (f *filler) visits(hj *hosts.Job, limit int) {
	if f.agenda.VisitsAt(f.h, hj) > f.Now {
		return
	}
	ready := hj.Tally.Ready() > 0
	if ready {
		hj.Share = min(hj.Share+float64(limit)*f.Cfg.RefreshShare, lateMost)
		limit = min(limit, int(hj.Share))
	}
	type visit struct {
		due  uint32
		hash uint64
	}
	var list []visit
	now := ondisk.Seconds(f.Now)
	next := hj.Visits(func(due uint32, hash uint64) bool {
		if due > now || len(list) == limit+visitsMoved {
			return false
		}
		if _, done := f.gone[hash]; !done && f.h.Lease.Item(hash) == nil {
			list = append(list, visit{due, hash})
		}
		return true
	})
	hj.Passed(next)
	granted := 0
	defer func() {
		if ready {
			hj.Share -= float64(granted)
		}
	}()
	for _, v := range list {
		if granted == limit || f.full() || f.Buf.Err() != nil || v.due != ondisk.DueAsked && !hj.State.MayVisit() {
			hj.Visitable(v.due)
			continue
		}
		if f.visit(hj, v.due, v.hash) {
			granted++
		}
	}
}

// visitsMoved bounds the visits that one grant finds not to be due yet.
const visitsMoved = 64

// visit grants one URL that is fetched again; false: it is not due any more.
func (f *filler) visit(hj *hosts.Job, due uint32, hash uint64) bool {
	n, ok := hj.Entry(hash)
	had := &n.Final
	if !ok || !n.Done || had.Revisit.Due != due {
		f.Buf.Delete(ondisk.VisitKey(f.h.Pos, hj.State.ID, due, hash))
		return false
	}
	next := *had
	if f.Cfg.OptOuts.URL(had.URL) != "" {
		next.Revisit.Due = ondisk.Seconds(f.Now + f.Cfg.Day.Milliseconds()) // the list may change
		hj.Correct(hash, had, &next)
		return false
	}
	if due != ondisk.DueAsked && hj.State.PerDay() > 0 {
		// The threshold has moved since the last visit.
		if at := f.jobs.Due(hj, hash, had, fresh.Unchanged); had.Revisit.Misses == 0 && had.Revisit.Signal == 0 && at > ondisk.Seconds(f.Now+f.Cfg.Day.Milliseconds()/visitSlack) {
			if f.gone == nil {
				f.gone = make(map[uint64]struct{})
			}
			f.gone[hash] = struct{}{}
			next.Revisit.Due = at
			hj.Correct(hash, had, &next)
			return false
		}
		hj.State.Control().Hour++
	}
	it := again(hj, hash, had)
	it.Seq = f.h.Lease.Session.Seq
	f.put(hj, &it.Pending)
	r := &wire.Revisit{
		At: uint32(len(f.g.GetUrl()) - 1), Digest: had.Digest, Content: had.Revisit.Content, RecordId: had.RecordID, FetchedMs: had.FetchedMs, Visits: had.Revisit.Visits,
	}
	if had.Validates() {
		if f.leases.hosts.Touched(f.h); f.h.Rec.Validators.Next() {
			r.Etag, r.LastModified = had.ETag, had.LastModified
		} else {
			it.Plain = true
		}
	}
	it.URL = ""
	f.g.Revisits = append(f.g.Revisits, r)
	f.h.Lease.Out[hash] = it
	return true
}

// A 1440th of a day, a minute, is not worth another turn in the queue.
const visitSlack = 1440

// again returns the item of a URL that is fetched again.
func again(hj *hosts.Job, hash uint64, f *ondisk.Final) *hosts.Item {
	return &hosts.Item{Job: hj, Again: true, Pending: ondisk.Pending{
		Spot: ondisk.Spot{Depth: f.Depth, Due: int64(f.Revisit.Due)}, Hash: hash, Hops: f.Hops, Kind: f.Kind, URL: f.URL, Via: f.Via,
	}}
}

// While other URLs wait, one of lateShare grants is a delayed URL that is due, as most of those
// were moved behind the others; lateMost bounds the accumulated share.
const (
	lateShare = 8
	lateMost  = 64
)

// scan grants delayed URLs that are due, or ready ones, and moves the marks at which the next scan
// starts.
func (f *filler) scan(hj *hosts.Job, limit int, delayed bool) (granted int) {
	if limit <= 0 || f.full() || delayed && hj.NextDue() > f.Now || !delayed && hj.Tally.Ready() <= 0 {
		return 0
	}
	w := walk{filler: f, hj: hj, limit: limit}
	hj.Walk(delayed, w.meet)
	f.leave(hj, w.gone)
	return w.granted
}

// walk is an ordered scan of the waiting URLs of a job.
type walk struct {
	*filler
	hj             *hosts.Job
	limit, granted int
	gone           []notGranted
}

// meet grants a URL or skips it; false ends the walk.
func (w *walk) meet(at *ledger.Walk, p *ondisk.Pending) (more bool) {
	if _, done := w.filler.gone[p.Hash]; done {
		return true
	}
	if w.h.Lease.Item(p.Hash) != nil {
		at.Pass(p.Spot) // visited again only if it is returned
		return true
	}
	if w.granted == w.limit || w.full() || p.Due > w.Now {
		at.Leave(p.Spot)
		return false
	}
	if out, left := w.left(w.hj, p); left {
		if w.gone = append(w.gone, out); len(w.gone) == PurgePerStep {
			at.Leave(p.Spot) // the next walk starts here
		}
		return len(w.gone) < PurgePerStep
	}
	if !w.mayGrant(w.hj, p) {
		at.Leave(p.Spot)
		return !w.alone && w.hj.Tally.PromisedHere() > 0
	}
	w.add(w.hj, p)
	w.granted++
	at.Pass(p.Spot)
	return true
}

// notGranted is a waiting URL that is not granted.
type notGranted struct {
	ondisk.Pending
	outcome link.Outcome // none: it is moved behind the others
	why     string
	due     int64 // new due time
}

// left reports whether an accepted URL is skipped: it is on this peer's opt-out list by now, or its
// URL pattern is a trap or about to become one.
func (f *filler) left(hj *hosts.Job, p *ondisk.Pending) (out notGranted, left bool) {
	if why := f.Cfg.OptOuts.URL(p.URL); why != "" {
		return notGranted{Pending: *p, outcome: link.OutcomeOptedOut, why: why}, true
	}
	rules := hj.State.Rules()
	if rules.On() && (p.Kind == link.KindPage || p.Kind == link.KindSitemap) {
		s := f.traps.Of(f.h, hj)
		rule, last := s.Verdict(p.URL, p.Depth)
		if rule != trap.None {
			s.Leave(rule, p.URL)
			return notGranted{Pending: *p, outcome: link.OutcomeTrap, why: rules.Text(rule)}, true
		}
		if last && p.Due == 0 && !p.Promised && f.Cfg.Delay > 0 && hj.Tally.Ready() > 1 {
			return notGranted{Pending: *p, due: f.LastAt()}, true
		}
	}
	switch {
	case hj.Tally.Ready() > 1 && !p.Promised && f.h.Hangs.Last(p.URL, p.Tries > 0):
		return notGranted{Pending: *p, due: f.Now + hosts.LastMost}, true
	case p.Kind == link.KindSitemap:
		return f.sitemap(hj, p)
	default:
		return out, false
	}
}

// leave concludes skipped URLs without a try, and sets the due time of those that are moved behind
// the others.
func (f *filler) leave(hj *hosts.Job, gone []notGranted) {
	for i := range gone {
		p := &gone[i].Pending
		if f.gone == nil {
			f.gone = make(map[uint64]struct{})
		}
		f.gone[p.Hash] = struct{}{}
		if gone[i].outcome == link.OutcomeNone {
			hj.Wait(p, gone[i].due)
			continue
		}
		hj.Settle(p, 0, 0)
		hj.Conclude(p, ondisk.Final{Outcome: gone[i].outcome, Detail: ondisk.Clip(gone[i].why)})
	}
}

// mayGrant holds back URLs that the job's budgets do not cover, unless they are paid for, and URLs
// that must be out alone.
func (f *filler) mayGrant(hj *hosts.Job, p *ondisk.Pending) bool {
	js := hj.State
	if f.RequestsLeft(hj) <= 0 {
		return false
	}
	if p.Promised {
		return f.mayBeside(p)
	}
	if !f.jobs.Affords(js) {
		js.Budget.Starve(f.h.Rec.Name)
		return false
	}
	return hj.PagesLeft() > 0 && f.mayBeside(p)
}

// mayBeside holds back URLs that must be out alone.
func (f *filler) mayBeside(p *ondisk.Pending) bool {
	if p.Lapses < aloneAfter {
		return true
	}
	f.alone = true
	return len(f.h.Lease.Out) == 0
}

// add adds one URL to the grant and the lease.
func (f *filler) add(hj *hosts.Job, p *ondisk.Pending) {
	hj.Promise(p, f.Now)
	f.put(hj, p)
	it := &hosts.Item{Pending: *p, Job: hj, Seq: f.h.Lease.Session.Seq}
	it.URL = ""
	f.h.Lease.Out[p.Hash] = it
	hj.Lease(p)
}

// put adds a URL to the columns of the grant.
func (f *filler) put(hj *hosts.Job, p *ondisk.Pending) {
	g := f.g
	if f.column < 0 {
		f.column = len(g.GetJobIds())
		g.JobIds = append(g.JobIds, hj.State.ID[:])
	}
	g.Url = append(g.Url, []byte(p.URL))
	f.bytes += len(p.URL)
	g.Job = append(g.Job, uint32(f.column)) // small
	g.Depth = append(g.Depth, p.Depth)
	g.Hops = append(g.Hops, p.Hops)
	g.Kind = append(g.Kind, byte(p.Kind))
	g.Tries = append(g.Tries, p.Tries)
	g.MaxBytes = append(g.MaxBytes, p.PromisedBytes)
	f.vias = append(f.vias, p.Via)
	f.room--
}

// Limits of the URLs that sitemaps add, which take a share of the job and of this peer's disk. The
// share is large from the start, and grows with the yield of the host.
const (
	// enoughOpen ready URLs, or URLs that sitemaps which are out may add (manyNamed each), are enough.
	// Other sitemaps are delayed by namesWait ms, and longer the more of them a step finds waiting, so
	// that as many become due together as may be out.
	enoughOpen = 5000
	manyNamed  = 1000
	namesWait  = 500
)

// sitemap reports whether a sitemap is skipped or delayed: it adds many URLs at once, whose value
// shows only in their pages.
func (f *filler) sitemap(hj *hosts.Job, p *ondisk.Pending) (out notGranted, left bool) {
	coming := hj.Tally.Ready()
	for _, it := range f.h.Lease.Out {
		if it.Kind == link.KindSitemap {
			coming += manyNamed
		}
	}
	if coming <= enoughOpen || f.Cfg.Delay == 0 || p.Promised {
		return out, false
	}
	f.waiting++
	return notGranted{Pending: *p, due: max(f.Now+namesWait*int64(1+f.waiting*manyNamed/enoughOpen), f.LastAt())}, true
}
