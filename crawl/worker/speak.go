package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// speaker runs the session with one owner, until nothing is left to send.
type speaker struct {
	w    *Worker
	s    *session.Session
	wake chan struct{}
}

// speak starts a speaker for a session unless there is one. The caller holds the mutex.
func (w *Worker) speak(s *session.Session) {
	if w.closed {
		return
	}
	ctx, one := w.ctx, speaker{w, s, w.speakers[s]}
	w.wg.Go(func() { one.run(ctx) })
}

// run sends messages until nothing is left to send.
func (k speaker) run(ctx context.Context) {
	w := k.w
	ctx, cancel := context.WithCancel(ctx)
	var renewing sync.WaitGroup
	defer renewing.Wait()
	defer cancel()
	renewing.Go(func() { k.renew(ctx) })
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

// renew renews the leases of the session while its messages take long, because they are large or a
// disk is slow, here or at the owner.
func (k speaker) renew(ctx context.Context) {
	w := k.w
	ticker := time.NewTicker(w.cfg.Sessions.TTL / 8)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		sent := w.clock.Now()
		w.mu.Lock()
		m, held := w.sessions.Renewal(k.s, sent)
		w.mu.Unlock()
		if m == nil {
			continue
		}
		call, cancel := context.WithTimeout(ctx, w.cfg.Sessions.TTL/4)
		reply, err := w.deps.Owners.Session(call, k.s.Owner(), m)
		cancel()
		if err == nil && reply.Validate() == nil {
			w.mu.Lock()
			w.sessions.Renewed(k.s, held, reply, sent)
			w.mu.Unlock()
		}
	}
}

// exchange sends one message and processes its answer.
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
	w.mu.Lock()
	n := w.visits.News()
	t := w.sessions.Turn(time.Now(), s, min(ready, s.Ready()), n.Add)
	w.mu.Unlock()
	w.pipe.Confirm(t.Reports)

	call, cancel := context.WithTimeout(ctx, w.cfg.callTimeout())
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
	if receipt := reply.GetReceipt(); len(receipt) > 0 && w.deps.Receipt != nil {
		if err := w.deps.Receipt(s.Owner(), receiptLines(t.Message, reply), receipt); err != nil {
			w.broken(err)
			return
		}
	}
	refs := k.jobsOf(ctx, reply.GetGrants())
	routes := k.routes(reply.GetMoved())
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(t.Reports) > 0 {
		s.Timed(min(took, w.cfg.callTimeout())) // the clock counts suspend
	}
	n.Stored(reply)
	w.granting = refs
	w.sessions.Answered(time.Now(), s, t, reply, sent, routes)
	w.granting = nil
	w.weigh()
	w.idle.wakeOne() // there may be capacity in flight, or more to visit
	poke(w.watch)
}

// receiptLines returns the lines of the pages in a message that its answer accepts.
func receiptLines(m *wire.Session, reply *wire.SessionReply) (lines []byte) {
	kept := session.Kept(reply)
	for _, work := range m.GetHosts() {
		for _, f := range work.GetFetched() {
			if !kept[work.GetHost()] && len(f.GetRecordId()) > 0 {
				lines = wire.ReceiptLine(lines, work, f)
			}
		}
	}
	return lines
}

// unanswered queues the content of a message again, for other owners if necessary.
func (k speaker) unanswered(ctx context.Context, t *session.Turn, n *visits.News) {
	w, s := k.w, k.s
	w.mu.Lock()
	n.Undelivered()
	w.sessions.Unanswered(time.Now(), s, t)
	w.weigh()
	w.idle.wakeOne() // reports of an unresponsive owner no longer block other hosts
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

// driver executes the actions of the state machine. Its methods are called with the mutex held.
type driver struct{ w *Worker }

var _ visits.Driver = driver{}

// Wake implements visits.Driver: it wakes the speaker of a session, or starts one.
func (d driver) Wake(s *session.Session) {
	w := d.w
	if wake := w.speakers[s]; wake != nil {
		poke(wake)
		return
	}
	w.speakers[s] = make(chan struct{}, 1)
	if w.ctx != nil {
		w.speak(s)
	}
}

// Acknowledged implements visits.Driver.
func (d driver) Acknowledged(r *session.Report) { d.w.cfg.Known.Acknowledged(r) }

// Job implements visits.Driver.
func (d driver) Job(id job.ID) *reports.Job {
	if ref := d.w.granting[id]; ref != nil {
		return ref
	}
	return &reports.Job{ID: id}
}

// jobsOf looks up the jobs of granted URLs.
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

// routes returns the presumed owners of hosts that have moved.
func (k speaker) routes(hosts []string) map[string]string {
	routes := make(map[string]string, len(hosts))
	for _, name := range hosts {
		routes[name] = k.w.deps.Owners.OwnerOf(name)
	}
	return routes
}
