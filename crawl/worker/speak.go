package worker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// speaker speaks to one owner, until there is nothing left to say.
type speaker struct {
	w    *Worker
	s    *session.Session
	wake chan struct{}
}

// speak has somebody speak to the owner of a session. Under the mutex.
func (w *Worker) speak(s *session.Session) {
	if w.closed {
		return
	}
	ctx, one := w.ctx, speaker{w, s, w.speakers[s]}
	w.wg.Go(func() { one.run(ctx) })
}

// run sends messages until there is nothing left to say.
func (k speaker) run(ctx context.Context) {
	w := k.w
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		w.mu.Lock()
		if k.s.Over() || ctx.Err() != nil {
			w.sessions.End(k.s)
			delete(w.speakers, k.s)
			poke(w.quiet)
			w.mu.Unlock()
			return
		}
		at := k.s.Due()
		w.mu.Unlock()
		due := time.Hour
		if !at.IsZero() {
			due = time.Until(at)
		}
		if due <= 0 {
			k.exchange(ctx)
			continue
		}
		timer.Reset(due)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
		}
	}
}

// exchange sends one message and takes its answer in.
func (k speaker) exchange(ctx context.Context) {
	w, s := k.w, k.s
	w.mu.Lock()
	ready := s.Begin()
	w.mu.Unlock()
	// What is reported must be on disk; what is archived from here on waits for the next message.
	if ready > 0 {
		if err := w.deps.Archive.Sync(); err != nil {
			w.broken(err)
			return
		}
	}
	n := &news{w: w}
	w.mu.Lock()
	t := w.sessions.Turn(time.Now(), s, min(ready, s.Ready()), n.tell)
	w.mu.Unlock()
	w.pipe.Confirm(t.Reports)

	call, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	sent := w.clock.Now()
	reply, err := w.deps.Owners.Session(call, s.Owner(), t.Message)
	took := w.clock.Now() - sent
	cancel()
	if err == nil {
		err = reply.Validate()
	}
	if err != nil {
		k.unanswered(ctx, t, n)
		return
	}
	refs := k.jobsOf(ctx, reply.GetGrants())
	routes := k.routes(reply.GetMoved())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(t.Reports) > 0 {
		s.Timed(min(took, w.cfg.CallTimeout)) // the clock counts suspend
	}
	n.told(reply)
	w.granting = refs
	w.sessions.Answered(time.Now(), s, t, reply, sent, routes)
	w.granting = nil
	w.weigh()
	w.idle.wakeOne() // there may be room in flight
}

// unanswered has what a message told be told again, if need be to others.
func (k speaker) unanswered(ctx context.Context, t *session.Turn, n *news) {
	w, s := k.w, k.s
	w.mu.Lock()
	n.untold()
	w.sessions.Unanswered(time.Now(), s, t)
	w.weigh()
	w.idle.wakeOne() // what this owner does not take no longer keeps the others' hosts waiting
	hosts := s.Hosts()
	w.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	routes := k.routes(hosts)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sessions.Follow(time.Now(), s, routes)
}

// jobsOf learns the jobs of granted URLs.
func (k speaker) jobsOf(ctx context.Context, grants []*wire.Grant) map[job.ID]*reports.Job {
	refs := make(map[job.ID]*reports.Job)
	for _, g := range grants {
		for _, raw := range g.GetJobIds() {
			refs[job.ID(raw)] = nil
		}
	}
	for _, ref := range k.w.jobs.All(ctx, slices.Collect(maps.Keys(refs))) {
		refs[ref.ID] = ref
	}
	return refs
}

// routes asks who owns hosts that another does not own any more.
func (k speaker) routes(hosts []string) map[string]string {
	routes := make(map[string]string, len(hosts))
	for _, name := range hosts {
		routes[name] = k.w.deps.Owners.OwnerOf(name)
	}
	return routes
}

// news is what one message tells of hosts beside outcomes: states of robots.txt and addresses. Its
// methods are called under the worker's mutex.
type news struct {
	w      *Worker
	robots []robotsNews
	addrs  []*host // whose addresses it tells
}

type robotsNews struct {
	origin *origin
	seq    uint64
	host   string
}

// tell adds what was learnt of a host to a message.
func (n *news) tell(t *session.Turn, l *session.Lease) {
	h := n.w.hosts[l.Host]
	for _, o := range h.origins {
		if !o.untold {
			continue
		}
		work := t.Work(l)
		if len(work.GetRobots()) == wire.MaxOrigins {
			break
		}
		work.Robots = append(work.Robots, &wire.Robots{Origin: o.name, State: o.encoded})
		t.Grow(len(o.encoded))
		n.robots = append(n.robots, robotsNews{o, o.newsSeq, l.Host})
	}
	if h.fresh {
		work := t.Work(l)
		for _, addr := range h.addrs {
			work.Addrs = append(work.Addrs, addr.AsSlice())
		}
		h.fresh = false
		n.addrs = append(n.addrs, h)
	}
}

// told takes in what the owner has on disk.
func (n *news) told(reply *wire.SessionReply) {
	kept := session.Kept(reply)
	for _, r := range n.robots {
		if !kept[r.host] && r.origin.newsSeq == r.seq {
			r.origin.untold = false
		}
	}
	for _, h := range n.addrs {
		h.fresh = h.fresh || kept[h.Host]
	}
}

// untold says that the message did not arrive.
func (n *news) untold() {
	for _, h := range n.addrs {
		h.fresh = true
	}
}
