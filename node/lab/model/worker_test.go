package model

import (
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// worker is a worker of the only host: the sessions of a peer's, a window, and what is under way.
type worker struct {
	i           int
	up, paused  bool
	incarnation uint64
	sessions    *session.Machine
	window      []session.URL
	turns       [most]*session.Turn // messages that are not answered
	sent        [most]time.Duration // when, by the lease clock
}

var _ session.Driver = (*worker)(nil)

func newWorker(i int) *worker {
	k := &worker{i: i}
	k.restart()
	return k
}

// restart begins a process that remembers nothing.
func (k *worker) restart() {
	k.up = true
	k.incarnation++
	cfg := session.DefaultConfig()
	cfg.Incarnation, cfg.TTL, cfg.Window = k.incarnation, ttl, len(urls)
	cfg.ReportLinger, cfg.ReleaseLinger = 0, 0 // the orders of messages are what is explored
	k.sessions = session.New(cfg, k)
}

// crash ends a worker's process.
func (k *worker) crash() { *k = worker{i: k.i, incarnation: k.incarnation} }

// lease is the lease on the host, nil without one.
func (k *worker) lease() *session.Lease {
	if k.sessions == nil {
		return nil
	}
	if l := k.sessions.Lease(host); l != nil && l.Granted() {
		return l
	}
	return nil
}

// clock is the lease clock.
func (w *world) clock() time.Duration { return w.now.Sub(begun) }

// writes says whether the worker may write a request now.
func (k *worker) writes(w *world) bool {
	l := k.lease()
	return k.up && l != nil && (w.rules.stubborn || l.Holds(w.clock()))
}

// session is what the worker has to say to a peer, nil if nothing.
func (k *worker) session(to int) *session.Session {
	for _, s := range k.sessions.Sessions() {
		if s.Owner() == string(places[to].id) {
			return s
		}
	}
	return nil
}

// offer takes the host on, or does not.
func (k *worker) offer(w *world, from int) {
	k.sessions.Offer(w.now, string(places[from].id), []string{host})
}

// speaks says whether the worker has anything to say to a peer: what is due before the time goes
// on.
func (k *worker) speaks(w *world, to int) bool {
	if !k.up || k.paused || k.turns[to] != nil {
		return false
	}
	s := k.session(to)
	return s != nil && !s.Due().IsZero() && s.Due().Before(w.now.Add(quantum))
}

// say makes a session.
func (k *worker) say(w *world, to int) {
	s := k.session(to)
	t := k.sessions.Turn(w.now, s, s.Begin(), nil)
	k.turns[to], k.sent[to] = t, w.clock()
	w.send(&msg{kind: sessionCall, from: k.i, to: to, id: t.Message.GetSeq(), boot: k.incarnation, session: t.Message})
}

// heard ends the wait for an answer, unless the worker has given up waiting; then there is none.
func (k *worker) heard(m *msg, from int) (*session.Session, *session.Turn) {
	t := k.turns[from]
	if k.incarnation != m.boot || t == nil || t.Message.GetSeq() != m.id {
		return nil, nil
	}
	k.turns[from] = nil
	return k.session(from), t
}

// hear takes the answer to a session.
func (k *worker) hear(w *world, m *msg) {
	s, t := k.heard(m, m.from)
	if t == nil {
		return
	}
	k.sessions.Answered(w.now, s, t, m.reply, k.sent[m.from], k.routes(w, m.reply.GetMoved(), m.from))
	k.end(s)
}

// giveUp ends the wait for an answer; a peer that is not there is not the one to speak with.
func (k *worker) giveUp(m *msg, answered bool) {
	to := m.to
	if answered {
		to = m.from
	}
	s, t := k.heard(m, to)
	if t == nil {
		return
	}
	w := current
	if k.sessions.Unanswered(w.now, s, t); !w.peers[to].up {
		k.sessions.Follow(w.now, s, k.routes(w, s.Hosts(), to))
	}
	k.end(s)
}

func (k *worker) end(s *session.Session) {
	if s.Over() {
		k.sessions.End(s)
	}
}

// routes finds whoever serves hosts now.
func (k *worker) routes(w *world, hosts []string, not int) map[string]string {
	routes := make(map[string]string)
	for _, name := range hosts {
		routes[name] = ""
		for _, p := range w.peers {
			if p.i != not && p.running() && p.seat.Mine(hostKey) {
				routes[name] = string(places[p.i].id)
				break
			}
		}
	}
	return routes
}

// fetch gets a page of the window.
func (k *worker) fetch(w *world) {
	u, l := k.window[0], k.lease()
	k.window = k.window[1:]
	f := &wire.Fetched{
		Job: theJob.ID[:], Url: []byte(u.URL), Depth: u.Depth, Outcome: uint32(link.OutcomeOK), Status: 200, Size: 100, DurationMs: 1,
		FetchedMs: w.now.UnixMilli(), RecordId: []byte("0123456789abcde" + string(rune('0'+k.i))),
	}
	if u.URL == urls[0] {
		f.Links = [][]byte{[]byte(urls[1])}
	}
	k.sessions.Report(w.now, &session.Report{Lease: l, Fetched: f})
	k.sessions.Changed(w.now, l)
}

// watch drops a lease that has ended.
func (k *worker) watch(w *world) {
	if k.up && !k.paused && !w.rules.stubborn {
		k.sessions.Lapse(w.now, w.clock())
	}
}

// Wake implements session.Driver: when to speak is asked at each step.
func (k *worker) Wake(*session.Session) {}

// Backlog implements session.Driver.
func (k *worker) Backlog() int { return len(k.window) }

// Full implements session.Driver.
func (k *worker) Full() bool { return false }

// Left implements session.Driver.
func (k *worker) Left(*session.Lease) int { return len(k.window) }

// Pace implements session.Driver.
func (k *worker) Pace(*session.Lease) time.Duration { return 0 }

// Owed implements session.Driver.
func (k *worker) Owed(time.Time, *session.Lease) time.Duration { return 0 }

// Learn implements session.Driver.
func (k *worker) Learn(time.Time, *session.Lease, *wire.Grant) (time.Duration, string) { return 0, "" }

// Take implements session.Driver.
func (k *worker) Take(_ *session.Lease, g *wire.Grant) int {
	before := len(k.window)
	for u := range session.URLs(g) {
		k.window = append(k.window, u)
	}
	return len(k.window) - before
}

// Drain implements session.Driver.
func (k *worker) Drain(_ time.Time, l *session.Lease, _ time.Duration) {
	for _, u := range k.window {
		l.Return(u.Job, u.URL)
	}
	k.window = nil
}

// Forget implements session.Driver.
func (k *worker) Forget(*session.Lease) { k.window = nil }

// Acknowledged implements session.Driver.
func (k *worker) Acknowledged(r *session.Report) {
	current.ack("outcome of " + string(r.Fetched.GetUrl()))
	for _, to := range r.Fetched.GetLinks() {
		current.ack(string(to))
	}
}
