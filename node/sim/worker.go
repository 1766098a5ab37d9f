package sim

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dedup"
)

// The rules of crawl/worker, which this model follows message for message.
const (
	workerCapacity = 16 * 256
	windowMost     = 256
	windowLeast    = 8
	windowFirst    = 64
	horizon        = 4 * time.Second
	reportLinger   = 150 * time.Millisecond
	reportBatch    = 128
	releaseLinger  = 250 * time.Millisecond
	hungry         = 200 * time.Millisecond
	retryFirst     = 50 * time.Millisecond
	retryMost      = time.Second
	// bandwidth of a site's answer in bytes a second.
	bandwidth = 1 << 20
	// maxKnown bounds the links remembered as acknowledged.
	maxKnown = 1 << 16
)

// worker holds leases, fetches what their owners grant, and reports. It is crawl/worker without goroutines, archive and robots.txt.
type worker struct {
	c        *crawlPeer
	seq      uint64
	hosts    map[string]*lease
	sessions []*session
	known    map[uint64]struct{}
	pages    int
}

// lease is the leave to ask one host, or the wish for it while its epoch is nil.
type lease struct {
	name  string
	owner peer.ID
	epoch *wire.Epoch
	until time.Duration
	queue []task

	more, asked, giveBack, ended bool
	again                        bool // it was offered while held
	running, planned             bool
	untold, piped                int // outcomes not acknowledged, and pages not yet reported
	askAgain                     time.Duration
	dryAt                        time.Duration // negative while there is work
	due                          time.Duration // of the next request
	turns                        int
}

type task struct {
	job   job.ID
	url   string
	depth uint32
	hops  uint8
	kind  uint8
	tries uint8
}

// session is what is said to one owner.
type session struct {
	w        *worker
	owner    peer.ID
	leases   []*lease
	reports  []*report
	releases []*release
	ack      uint64
	busy     bool
	at       time.Duration // when to speak; negative: never
	hold     time.Duration
	failures int
}

type report struct {
	lease   *lease
	fetched *wire.Fetched
	hashes  []uint64
	digest  [32]byte
	fresh   bool // the body is new: its owner is told once the outcome is acknowledged
}

type release struct {
	lease *lease
	work  *wire.HostWork
}

func newWorker(c *crawlPeer) *worker {
	return &worker{c: c, hosts: make(map[string]*lease), known: make(map[uint64]struct{})}
}

func (w *worker) now() time.Duration { return w.c.world.Elapsed() }

// backlog is the URLs held.
func (w *worker) backlog() uint32 {
	n := 0
	for _, s := range w.sessions {
		n += len(s.reports)
		for _, l := range s.leases {
			n += len(l.queue)
		}
	}
	return uint32(n) //nolint:gosec // a few thousands
}

func (w *worker) session(with peer.ID) *session {
	for _, s := range w.sessions {
		if s.owner == with {
			return s
		}
	}
	s := &session{w: w, owner: with, at: -1}
	w.sessions = append(w.sessions, s)
	return s
}

// offered takes hosts on; it returns those that it declines.
func (w *worker) offered(from peer.ID, hosts []string) (declined []string) {
	if w.backlog() >= workerCapacity {
		return hosts
	}
	s := w.session(from)
	for _, name := range hosts {
		if l := w.hosts[name]; l != nil {
			l.again = true // the owner knows of an end that we have yet to hear of
			s.kick(w.now())
			continue
		}
		w.take(s, name)
	}
	return nil
}

// take wishes for a host.
func (w *worker) take(s *session, name string) {
	l := &lease{name: name, owner: s.owner, dryAt: -1}
	w.hosts[name] = l
	s.leases = append(s.leases, l)
	s.kick(w.now())
}

// kick has the session speak at that time or earlier.
func (s *session) kick(at time.Duration) {
	at = max(at, s.hold, s.w.now())
	if s.at >= 0 && at >= s.at {
		return
	}
	s.at = at
	s.w.c.Host.After(at-s.w.now(), func() {
		if s.at == at && !s.busy {
			s.exchange()
		}
	})
}

// turn is one message with what it speaks of.
type turn struct {
	m        *wire.Session
	at       time.Duration
	held     []*lease
	offered  []*lease
	reports  []*report
	releases []*release
}

func (t *turn) work(name string, epoch *wire.Epoch) *wire.HostWork {
	for _, work := range t.m.GetHosts() {
		if work.GetHost() == name {
			return work
		}
	}
	work := &wire.HostWork{Host: name, Epoch: epoch}
	t.m.Hosts = append(t.m.Hosts, work)
	return work
}

// exchange sends one message and takes its answer in.
func (s *session) exchange() {
	w := s.w
	s.at = -1
	if len(s.leases) == 0 && len(s.reports) == 0 && len(s.releases) == 0 {
		w.sessions = slices.DeleteFunc(w.sessions, func(other *session) bool { return other == s })
		return
	}
	s.busy = true
	t := s.build()
	w.c.speak(s.owner, t.m, func(reply *wire.SessionReply, err error) {
		s.busy = false
		if err != nil {
			s.unanswered(t)
		} else {
			s.answered(t, reply)
		}
		if s.at >= 0 { // what was wished for meanwhile
			at := s.at
			s.at = -1
			s.kick(at)
		}
	})
}

// build makes the next message.
func (s *session) build() *turn {
	w := s.w
	w.seq++
	t := &turn{at: w.now(), m: &wire.Session{Incarnation: w.c.disk.starts, Seq: w.seq, Ack: s.ack, Capacity: workerCapacity, Backlog: w.backlog()}}
	told := make(map[string]int)
	t.reports, s.reports = s.reports, nil
	for _, r := range t.reports {
		epoch := r.lease.epoch
		if l := s.lease(r.lease.name); l != nil {
			epoch = l.epoch
		}
		work := t.work(r.lease.name, epoch)
		work.Fetched = append(work.Fetched, r.fetched)
		told[r.lease.name]++
	}
	for _, l := range slices.Clone(s.leases) {
		s.buildLease(t, l, told[l.name])
	}
	t.releases = slices.Clone(s.releases)
	for _, r := range t.releases {
		if s.lease(r.lease.name) != nil {
			t.m.Hosts = append(t.m.Hosts, r.work)
			continue
		}
		work := t.work(r.work.GetHost(), r.work.GetEpoch())
		work.Epoch, work.Release, work.Returned, work.OwedMs = r.work.GetEpoch(), true, r.work.GetReturned(), r.work.GetOwedMs()
	}
	for _, l := range s.leases {
		if l.epoch != nil {
			t.held = append(t.held, l)
			t.m.Held = append(t.m.Held, &wire.HostLease{Host: l.name, Epoch: l.epoch})
		}
	}
	return t
}

func (s *session) lease(name string) *lease {
	for _, l := range s.leases {
		if l.name == name {
			return l
		}
	}
	return nil
}

// buildLease says what there is to say of a lease, or of an offer.
func (s *session) buildLease(t *turn, l *lease, told int) {
	w := s.w
	switch {
	case l.epoch == nil:
		t.work(l.name, nil).Want = uint32(min(w.target(), windowFirst)) //nolint:gosec // at most windowMost
		l.asked = true
		t.offered = append(t.offered, l)
	case !l.running && l.piped == 0 && len(l.queue) == 0 && l.untold <= told && (l.giveBack || l.dryAt >= 0 && w.now()-l.dryAt >= releaseLinger):
		s.giveBack(l)
	case l.giveBack:
	case len(l.queue) <= w.target()/2:
		t.work(l.name, l.epoch).Want = uint32(w.target() - len(l.queue)) //nolint:gosec // at most windowMost
		l.asked = true
	}
}

// target is the size of a window: what is fetched in horizon, at least a few.
func (w *worker) target() int {
	return min(max(int(horizon/max(w.c.world.cfg.Delay, time.Millisecond)), windowLeast), windowMost)
}

// giveBack releases a lease.
func (s *session) giveBack(l *lease) {
	owed := max(0, l.due-s.w.now())
	s.releases = append(s.releases, &release{l, &wire.HostWork{
		Host: l.name, Epoch: l.epoch, Release: true, OwedMs: uint32((owed + time.Millisecond - 1).Milliseconds()), //nolint:gosec // a delay
	}})
	s.w.forget(l)
}

// forget drops a lease: no further request is written.
func (w *worker) forget(l *lease) {
	l.ended, l.queue = true, nil
	if w.hosts[l.name] == l {
		delete(w.hosts, l.name)
	}
	s := w.session(l.owner)
	s.leases = slices.DeleteFunc(s.leases, func(other *lease) bool { return other == l })
	if len(s.leases) == 0 && len(s.reports)+len(s.releases) == 0 {
		s.kick(w.now()) // it may be over
	}
}

// revoke forgets a lease that its owner does not know of any more, and takes the host again if it was offered meanwhile.
func (w *worker) revoke(l *lease) {
	w.forget(l)
	if l.again {
		w.take(w.session(l.owner), l.name)
	}
}

// answered takes in what an owner said.
func (s *session) answered(t *turn, reply *wire.SessionReply) {
	w := s.w
	s.ack = t.m.GetSeq()
	if len(reply.GetRefused()) == 0 {
		s.failures = 0
	}
	until := t.at + time.Duration(reply.GetTtlMs())*time.Millisecond*3/4
	for _, l := range t.held {
		l.asked = false
		if !slices.Contains(reply.GetRevoked(), l.name) && !slices.Contains(reply.GetMoved(), l.name) && !slices.Contains(reply.GetNotRenewed(), l.name) {
			l.until, l.turns = max(l.until, until), 0
		}
	}
	s.acknowledge(t, reply)
	for _, name := range reply.GetRevoked() {
		if l := s.lease(name); l != nil && (slices.Contains(t.held, l) || slices.Contains(t.offered, l)) {
			w.revoke(l)
		}
	}
	for _, name := range reply.GetMoved() {
		w.c.ownerOf(name, s.owner, func(to peer.ID) { s.reroute(name, to) })
	}
	for _, g := range reply.GetGrants() {
		s.granted(g, until)
	}
	for _, l := range t.offered {
		if l.epoch == nil && s.lease(l.name) == l && !slices.Contains(reply.GetMoved(), l.name) {
			w.forget(l) // the owner thought otherwise
		}
	}
	for _, l := range slices.Clone(s.leases) {
		w.settle(l)
	}
	if len(s.leases) > 0 {
		s.kick(t.at + leaseTTL/4)
	} else {
		s.kick(w.now())
	}
}

// acknowledge deals with what the message told: it is on disk at the owner, but for hosts that were refused or have moved.
func (s *session) acknowledge(t *turn, reply *wire.SessionReply) {
	kept := func(name string) bool {
		return slices.Contains(reply.GetRefused(), name) || slices.Contains(reply.GetMoved(), name)
	}
	var again []*report
	for _, r := range t.reports {
		if kept(r.lease.name) {
			again = append(again, r)
			continue
		}
		r.lease.untold--
		r.lease.turns = 0
		s.w.remember(r.hashes)
		if r.fresh {
			s.w.c.bodies.confirm(r.digest, string(r.fetched.GetUrl()))
		}
	}
	s.reports = append(again, s.reports...)
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool { return slices.Contains(t.releases, r) && !kept(r.lease.name) })
	if len(reply.GetRefused()) > 0 {
		s.failures++
		s.holdBack()
	}
}

func (w *worker) remember(hashes []uint64) {
	if len(w.known) > maxKnown {
		clear(w.known)
	}
	for _, hash := range hashes {
		w.known[hash] = struct{}{}
	}
}

// holdBack leaves an owner alone for a while that grows with each failure in a row.
func (s *session) holdBack() {
	s.hold = s.w.now() + pause(max(s.failures, 1))
	s.at = -1
	s.kick(s.hold)
}

func pause(failures int) time.Duration {
	if failures <= 0 {
		return 0
	}
	return min(retryFirst<<min(failures-1, 8), retryMost)
}

// unanswered keeps what a message told for the next one, and looks for whoever serves the hosts now.
func (s *session) unanswered(t *turn) {
	s.failures++
	s.reports = append(t.reports, s.reports...)
	var names []string
	for _, l := range s.leases {
		l.asked = false
		if l.epoch != nil {
			names = append(names, l.name)
		} else {
			names = append(names, "")
		}
	}
	for _, r := range s.reports {
		names = append(names, r.lease.name)
	}
	for _, r := range s.releases {
		names = append(names, r.lease.name)
	}
	s.holdBack()
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "" {
			s.w.c.ownerOf(name, s.owner, func(to peer.ID) {
				if to != "" && to != s.owner {
					s.reroute(name, to)
				}
			})
		}
	}
}

// reroute tells another owner what was to be told to this one of a host; a lease that still holds goes along.
func (s *session) reroute(name string, to peer.ID) {
	if to == "" || to == s.owner {
		s.holdBack()
		return
	}
	w := s.w
	other := w.session(to)
	turns := 0
	pass := func(l *lease) {
		l.owner = to
		l.turns++
		turns = max(turns, l.turns)
	}
	if l := s.lease(name); l != nil {
		s.leases = slices.DeleteFunc(s.leases, func(k *lease) bool { return k == l })
		pass(l)
		other.leases = append(other.leases, l)
	}
	s.reports = slices.DeleteFunc(s.reports, func(r *report) bool {
		if r.lease.name != name {
			return false
		}
		if r.lease.owner != to {
			pass(r.lease)
		}
		other.reports = append(other.reports, r)
		return true
	})
	s.releases = slices.DeleteFunc(s.releases, func(r *release) bool {
		if r.lease.name != name {
			return false
		}
		other.releases = append(other.releases, r)
		return true
	})
	other.kick(w.now() + pause(turns-1))
}

// granted takes URLs of a host under a lease.
func (s *session) granted(g *wire.Grant, until time.Duration) {
	w := s.w
	l := s.lease(g.GetHost())
	if l == nil || l.epoch != nil && !sameEpoch(l.epoch, g.GetEpoch()) {
		s.decline(l, g)
		return
	}
	l.again, l.asked = false, false
	l.epoch = g.GetEpoch()
	l.until = max(l.until, until)
	l.more, l.giveBack = g.GetMore(), g.GetGiveBack()
	if owed := time.Duration(g.GetNotBeforeMs()) * time.Millisecond; owed > 0 {
		l.due = max(l.due, w.now()+owed)
	}
	if len(g.GetUrl()) == 0 {
		l.askAgain = w.now() + hungry
		return
	}
	l.askAgain = 0
	l.queue = append(l.queue, tasksOf(g)...)
	w.plan(l)
}

func tasksOf(g *wire.Grant) []task {
	tasks := make([]task, len(g.GetUrl()))
	for i, url := range g.GetUrl() {
		k := task{url: string(url), job: job.ID(g.GetJobIds()[0])}
		if len(g.GetJob()) > 0 {
			k.job = job.ID(g.GetJobIds()[g.GetJob()[i]])
		}
		if len(g.GetDepth()) > 0 {
			k.depth = g.GetDepth()[i]
		}
		if len(g.GetHops()) > 0 {
			k.hops = g.GetHops()[i]
		}
		if len(g.GetKind()) > 0 {
			k.kind = g.GetKind()[i]
		}
		if len(g.GetTries()) > 0 {
			k.tries = g.GetTries()[i]
		}
		tasks[i] = k
	}
	return tasks
}

// decline gives back what was granted under a lease that is not held any more.
func (s *session) decline(l *lease, g *wire.Grant) {
	if l != nil {
		s.w.revoke(l)
	}
	work := &wire.HostWork{Host: g.GetHost(), Epoch: g.GetEpoch(), Release: true, OwedMs: g.GetNotBeforeMs()}
	for _, k := range tasksOf(g) {
		work.Returned = append(work.Returned, &wire.Unfetched{Job: k.job[:], Hash: link.Hash(k.job, k.url)})
	}
	s.releases = append(s.releases, &release{&lease{name: g.GetHost(), owner: s.owner, ended: true}, work})
	s.kick(s.w.now())
}

func sameEpoch(a, b *wire.Epoch) bool {
	return a.GetCounter() == b.GetCounter() && string(a.GetPeer()) == string(b.GetPeer())
}

// settle looks at a lease after something changed, and has its session speak when there is reason to.
func (w *worker) settle(l *lease) {
	if l.ended || l.epoch == nil {
		return
	}
	s := w.session(l.owner)
	now := w.now()
	switch {
	case len(l.queue) == 0 && !l.running && l.piped == 0 && l.untold > 0:
		s.kick(now)
	case len(l.queue) == 0 && !l.running && l.piped == 0:
		if l.dryAt < 0 {
			l.dryAt = now
		}
		if l.giveBack {
			s.kick(now)
		} else {
			s.kick(l.dryAt + releaseLinger)
		}
		return
	case l.more && !l.giveBack && !l.asked && len(l.queue) <= w.target()/2:
		s.kick(max(now, l.askAgain))
	}
	l.dryAt = -1
}

// plan has the next request of a lease made when it is due.
func (w *worker) plan(l *lease) {
	if l.running || l.planned || l.ended || len(l.queue) == 0 {
		return
	}
	l.planned = true
	w.c.Host.After(l.due-w.now(), func() {
		l.planned = false
		if l.due > w.now() {
			w.plan(l)
		} else if !l.ended && len(l.queue) > 0 {
			w.fetch(l)
		}
	})
}

// fetch makes one request, if the lease still holds.
func (w *worker) fetch(l *lease) {
	now := w.now()
	if now >= l.until {
		w.lapse(l)
		return
	}
	k := l.queue[0]
	l.queue = l.queue[1:]
	l.running = true
	world := w.c.world
	v := world.sites.begin(now, l.name, w.c.Host, func() time.Duration { return l.until })
	f, digest := world.sites.get(k.url)
	rtt := world.Internet.RTT(w.c.Index, world.sites.host(l.name).index)
	took := 2*rtt + time.Duration(f.GetSize())*time.Second/bandwidth //nolint:gosec // bytes of a page
	w.c.Host.After(took, func() {
		l.running = false
		world.sites.end(min(w.now(), l.until), l.name, v)
		if w.now() >= l.until {
			world.broken++
			w.lapse(l)
			return
		}
		l.due = w.now() + world.cfg.Delay
		f.DurationMs = uint32(max(took.Milliseconds(), 1)) //nolint:gosec // seconds
		f.FetchedMs = world.Now().UnixMilli()
		w.page(l, k, f, digest)
		w.plan(l)
		w.settle(l)
	})
	w.settle(l)
}

// page asks about the body of a page and reports it.
func (w *worker) page(l *lease, k task, f *wire.Fetched, digest [32]byte) {
	w.pages++
	if link.Outcome(f.GetOutcome()) != link.OutcomeOK { //nolint:gosec // one of its constants
		w.report(l, k, f, digest)
		return
	}
	l.piped++
	w.c.bodies.claim(digest, k.url, func(v dedup.Verdict) {
		l.piped--
		if v == dedup.Known {
			f.Outcome = uint32(link.OutcomeDuplicate)
		}
		w.report(l, k, f, digest)
		w.settle(l)
	})
}

// lapse drops a lease of which the time is over.
func (w *worker) lapse(l *lease) {
	w.c.world.lapsed++
	if !l.ended {
		w.revoke(l)
	}
}

// report tells an outcome to the owner, together with others or a little later.
func (w *worker) report(l *lease, k task, f *wire.Fetched, digest [32]byte) {
	f.Job, f.Depth, f.Hops, f.Kind = k.job[:], k.depth, uint32(k.hops), uint32(k.kind)
	outcome := link.Outcome(f.GetOutcome()) //nolint:gosec // one of its constants
	r := &report{lease: l, fetched: f, digest: digest, fresh: outcome == link.OutcomeOK}
	redirect := outcome == link.OutcomeRedirect
	fresh := f.GetLinks()[:0:0]
	for _, to := range f.GetLinks() {
		hash := link.Hash(k.job, string(to))
		if _, known := w.known[hash]; known && !redirect {
			continue
		}
		r.hashes = append(r.hashes, hash)
		fresh = append(fresh, to)
	}
	f.Links = fresh
	if redirect && k.kind != 0 && len(fresh) > 0 {
		f.LinkKind = []byte{k.kind}
	}
	l.untold++
	s := w.session(l.owner)
	s.reports = append(s.reports, r)
	if len(s.reports) >= reportBatch {
		s.kick(w.now())
	} else {
		s.kick(w.now() + reportLinger)
	}
}
