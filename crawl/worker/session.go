package worker

import (
	"context"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// maxMessage bounds outcomes and robots states of one Session; what is beyond it waits for the next one. A frame holds twice as much, and no outcome
	// takes more than wire.PieceBytes and a little.
	maxMessage = 2 << 20
	// maxTold bounds the links of one Session in the same way: its answer renews leases, and comes when they are all taken in.
	maxTold = 2 * wire.PieceLinks
	// retryFirst and retryMost bound the wait before an owner that did not answer, or was busy, is spoken to again; it doubles in between.
	retryFirst = 50 * time.Millisecond
	retryMost  = time.Second
)

// session is what is said to one owner. Guarded by the worker's mutex.
type session struct {
	owner    string
	hosts    map[string]*host // leases held from it, and offers to be answered
	reports  []*report        // outcomes to be told, in their order
	sending  []*report        // those under way
	bytes    int64            // of both
	releases []*release       // hosts given back, until that is acknowledged
	ack      uint64
	at       time.Time // when to speak; zero: never
	hold     time.Time // not before
	wake     chan struct{}
	failures int
	took     time.Duration // to acknowledge, on an average of the last few
}

// report is an outcome on its way to its owner.
type report struct {
	host    *host
	fetched *wire.Fetched
	ahead   []*report // with the first links of a page that has very many, queued before it
	piece   bool      // it is one of those: links without an outcome
	hashes  []uint64  // of links to be known once it is acknowledged
	size    int       // in a message, once queued
	confirm *Confirmation
}

// release gives a host back.
type release struct {
	host *host
	work *wire.HostWork
}

// session returns the session with an owner, started if the worker runs.
func (w *Worker) session(owner string) *session {
	s := w.sessions[owner]
	if s == nil {
		s = &session{owner: owner, hosts: make(map[string]*host), wake: make(chan struct{}, 1)}
		w.sessions[owner] = s
		if w.ctx != nil {
			w.start(s)
		}
	}
	return s
}

func (w *Worker) start(s *session) {
	if w.closed {
		return
	}
	w.wg.Go(func() { w.speak(w.ctx, s) })
}

// kick has the session speak at that time or earlier.
func (s *session) kick(at time.Time) {
	if at.Before(s.hold) {
		at = s.hold
	}
	if !s.at.IsZero() && !at.Before(s.at) {
		return
	}
	s.at = at
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// speak sends messages until there is nothing left to say.
func (w *Worker) speak(ctx context.Context, s *session) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		if len(s.hosts) == 0 && len(s.reports) == 0 && len(s.releases) == 0 || ctx.Err() != nil {
			delete(w.sessions, s.owner)
			poke(w.quiet)
			w.mu.Unlock()
			return
		}
		at := s.at
		w.mu.Unlock()
		due := time.Hour
		if !at.IsZero() {
			due = time.Until(at)
		}
		if due <= 0 {
			w.exchange(ctx, s)
			continue
		}
		timer.Reset(due)
		select {
		case <-timer.C:
		case <-s.wake:
		case <-ctx.Done():
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// exchange sends one message and takes its answer in.
func (w *Worker) exchange(ctx context.Context, s *session) {
	w.mu.Lock()
	s.at = time.Time{}
	ready := len(s.reports)
	w.mu.Unlock()
	// What is reported must be on disk; what is archived from here on waits for the next message.
	if ready > 0 {
		if err := w.deps.Archive.Sync(); err != nil {
			w.broken("archive", err)
			return
		}
	}
	w.mu.Lock()
	t := w.build(s, min(ready, len(s.reports)), time.Now())
	w.mu.Unlock()
	w.confirm(t.reports)

	call, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	sent := w.clock.Now()
	reply, err := w.deps.Owners.Session(call, s.owner, t.m)
	took := w.clock.Now() - sent
	cancel()
	if err == nil {
		err = reply.Validate()
	}
	if err != nil {
		w.unanswered(ctx, s, t)
		return
	}
	refs := w.jobsOf(ctx, reply.GetGrants())
	routes := w.routes(reply.GetMoved())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(t.reports) > 0 {
		s.timed(min(took, w.cfg.CallTimeout)) // the clock counts suspend
	}
	w.answered(s, t, reply, sent, refs, routes)
}

// timed notes how long an acknowledgement took.
func (s *session) timed(took time.Duration) {
	if s.took == 0 {
		s.took = took
	}
	s.took += (took - s.took) / 8
}

// turn is one message with what it speaks of.
type turn struct {
	m        *wire.Session
	at       time.Time
	held     []*host
	offered  []*host
	told     map[string]int // outcomes of a host in it
	reports  []*report
	releases []*release
	news     []robotsNews
	fresh    []*host // whose addresses it tells
	bytes    int
	links    int
	works    map[string]*wire.HostWork
}

type robotsNews struct {
	origin *origin
	seq    uint64
	host   string
}

// work is what the message says of a host.
func (t *turn) work(name string, epoch *wire.Epoch) *wire.HostWork {
	work := t.works[name]
	if work == nil {
		work = &wire.HostWork{Host: name, Epoch: epoch}
		t.works[name] = work
		t.m.Hosts = append(t.m.Hosts, work)
	}
	return work
}

func (t *turn) full() bool { return len(t.m.GetHosts()) >= wire.MaxHosts-1 || t.bytes >= maxMessage }

// build makes the next message, with at most the first n reports.
func (w *Worker) build(s *session, n int, now time.Time) *turn {
	w.seq++
	t := &turn{
		at: now,
		m: &wire.Session{
			Incarnation: w.cfg.Incarnation, Seq: w.seq, Ack: s.ack,
			Capacity: uint32(w.cfg.Capacity), Backlog: uint32(max(w.backlog(), 0)), //nolint:gosec // some thousands
		},
		told: make(map[string]int), works: make(map[string]*wire.HostWork),
	}
	w.buildReports(s, t, n)
	for _, h := range s.hosts {
		w.buildHost(s, t, h, now)
	}
	for _, r := range s.releases {
		if t.full() {
			break
		}
		t.releases = append(t.releases, r)
		if work := t.works[r.work.GetHost()]; work != nil && s.hosts[r.work.GetHost()] == nil {
			work.Epoch, work.Release, work.Returned = r.work.GetEpoch(), true, r.work.GetReturned()
			work.OwedMs, work.BackoffMs, work.BackoffReason = r.work.GetOwedMs(), r.work.GetBackoffMs(), r.work.GetBackoffReason()
			work.Robots = append(work.GetRobots(), r.work.GetRobots()...)
			continue
		}
		t.m.Hosts = append(t.m.Hosts, r.work)
	}
	for _, h := range s.hosts {
		if h.epoch != nil && len(t.m.GetHeld()) < wire.MaxHeld {
			t.held = append(t.held, h)
			t.m.Held = append(t.m.Held, &wire.HostLease{Host: h.name, Epoch: h.epoch})
		}
	}
	return t
}

func (w *Worker) ttl() time.Duration { return w.leaseTTL }

// buildReports puts outcomes into the message, each under the lease that is held now, if any: they are taken under any.
func (w *Worker) buildReports(s *session, t *turn, n int) {
	for _, r := range s.reports[:n] {
		name := r.host.name
		epoch := r.host.epoch
		if h := s.hosts[name]; h != nil {
			epoch = h.epoch
		}
		links := len(r.fetched.GetLinks())
		if t.full() || t.bytes > 0 && t.bytes+r.size > maxMessage || t.links > 0 && t.links+links > maxTold || len(t.works[name].GetFetched()) == wire.MaxFetched {
			s.kick(time.Now())
			break
		}
		work := t.work(name, epoch)
		work.Fetched = append(work.Fetched, r.fetched)
		t.told[name]++
		t.bytes += r.size
		t.links += links
		t.reports = append(t.reports, r)
	}
	s.sending = t.reports // s.bytes has both
	s.reports = slices.Clone(s.reports[len(t.reports):])
}

// buildHost says what there is to say of a lease, or of an offer.
func (w *Worker) buildHost(s *session, t *turn, h *host, now time.Time) {
	if t.full() {
		return
	}
	if h.epoch == nil {
		t.work(h.name, nil).Want = uint32(min(w.ask(h, 0), firstWindow)) //nolint:gosec // at most Window
		h.asked = true
		t.offered = append(t.offered, h)
		return
	}
	w.buildNews(t, h)
	if w.done(h, t.told[h.name], now) {
		w.release(s, h, now)
		return
	}
	if h.closing || h.giveBack {
		return
	}
	if left := w.frontier.Len(h.name); left <= w.low(h) {
		t.work(h.name, h.epoch).Want = uint32(max(w.ask(h, left), 0)) //nolint:gosec // at most Window
		h.asked = true
	}
}

// buildNews tells what was learnt of a host.
func (w *Worker) buildNews(t *turn, h *host) {
	for _, o := range h.origins {
		if !o.untold || len(t.works[h.name].GetRobots()) == wire.MaxOrigins {
			continue
		}
		work := t.work(h.name, h.epoch)
		work.Robots = append(work.Robots, &wire.Robots{Origin: o.name, State: o.encoded})
		t.bytes += len(o.encoded)
		t.news = append(t.news, robotsNews{o, o.newsSeq, h.name})
	}
	if h.fresh {
		work := t.work(h.name, h.epoch)
		for _, addr := range h.addrs {
			work.Addrs = append(work.Addrs, addr.AsSlice())
		}
		h.fresh = false
		t.fresh = append(t.fresh, h)
	}
}

// done says whether a host is to be given back in a message that tells that many of its outcomes.
func (w *Worker) done(h *host, told int, now time.Time) bool {
	switch {
	case h.running || h.piped > 0 || h.untold > told:
		return false
	case h.closing:
		return true
	default:
		return w.dry(h) && (h.giveBack || !h.dryAt.IsZero() && now.Sub(h.dryAt) >= w.cfg.ReleaseLinger)
	}
}

// release gives a host back.
func (w *Worker) release(s *session, h *host, now time.Time) {
	work := &wire.HostWork{
		Host: h.name, Epoch: h.epoch, Release: true,
		OwedMs:    wish(w.frontier.Owed(now, h.name)),
		BackoffMs: wish(h.backoff), BackoffReason: h.reason,
	}
	for _, it := range h.returned {
		if len(work.GetReturned()) == wire.MaxFetched {
			break // the owner takes back what is out when the lease ends
		}
		work.Returned = append(work.Returned, it.unfetched())
	}
	s.releases = append(s.releases, &release{host: h, work: work})
	h.ended.Store(true)
	w.forget(h)
}

func milliseconds(d time.Duration) uint32 {
	return uint32(min(max((d+time.Millisecond-1)/time.Millisecond, 0), 1<<31)) //nolint:gosec // bounded
}

// wish is a time for which a site is to be left alone, as an owner counts it: in whole milliseconds, from one that may have begun when it was told. So that nobody comes
// earlier than was asked, it has one more.
func wish(d time.Duration) uint32 {
	if d <= 0 {
		return 0
	}
	return milliseconds(d + time.Millisecond)
}
