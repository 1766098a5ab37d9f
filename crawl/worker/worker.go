package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// Worker crawls hosts for their owners. Create it with New, and call Run once.
type Worker struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	clock Clock
	jobs  *reports.Jobs
	stats stats
	pipe  *pages.Pipeline
	slot  chan struct{} // held while a large robots.txt is parsed
	// permits is nil if workers share no limit.
	permits *permits

	telling atomic.Int64  // bytes of outcomes not acknowledged by responsive owners
	watch   chan struct{} // a lease is held
	quiet   chan struct{} // a session has ended

	mu       sync.Mutex // guards what follows
	visits   *visits.Machine
	sessions *session.Machine                   // that of visits
	speakers map[*session.Session]chan struct{} // wakes the speaker of a session
	granting map[job.ID]*reports.Job            // jobs of the answer being processed
	idle     idlers
	ctx      context.Context //nolint:containedctx // of the run: sessions are started from Offer as well
	wg       sync.WaitGroup

	paused   bool
	hired    int // fetchers
	fetchers sync.WaitGroup
	stopping bool
	closed   bool // no further session
	failed   error
	fail     context.CancelCauseFunc
}

// New returns a worker that holds no lease and is idle until Run.
func New(cfg Config, deps Deps) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Pages.Agent = cfg.Agent
	cfg.Politeness.Group = domain.Of
	if deps.Owners == nil || deps.Fetch == nil || deps.Archive == nil || deps.Content == nil || deps.Jobs == nil {
		return nil, errors.New("worker deps: Owners, Fetch, Archive, Content and Jobs are required")
	}
	if deps.Estimates == nil {
		deps.Estimates = bandwidth.NewEstimates(bandwidth.EstimatesConfig{})
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = NewSystemClock()
	}
	cfg.Known, cfg.Estimates = reports.NewKnown(knownLinks), deps.Estimates
	shared := newPermits(&cfg, deps.Permits)
	if shared != nil {
		cfg.Permits = shared
	}
	w := &Worker{
		cfg: cfg, deps: deps, log: deps.Log, clock: deps.Clock, jobs: reports.NewJobs(deps.Jobs),
		permits: shared, slot: make(chan struct{}, 1), watch: make(chan struct{}, 1), quiet: make(chan struct{}, 1),
		speakers: make(map[*session.Session]chan struct{}),
	}
	w.idle = idlers{mu: &w.mu}
	w.visits = visits.New(cfg.Config, driver{w})
	w.sessions = w.visits.Sessions()
	w.pipe = pages.NewPipeline(cfg.Pages, pages.Deps{
		Archive: deps.Archive, Content: deps.Content, Known: cfg.Known, Log: w.log,
	}, finisher{w})
	return w, nil
}

// Run works until ctx ends or the archive fails, and returns the error of the archive. At the end
// it starts no request, completes or cancels those under way, archives and reports what was
// fetched, gives its leases back, and returns within about Config.StopTimeout.
func (w *Worker) Run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	w.mu.Lock()
	if w.ctx != nil {
		w.mu.Unlock()
		return errors.New("worker: Run was called twice")
	}
	w.ctx, w.fail = inner, cancel
	for _, s := range w.sessions.Sessions() {
		w.speak(s) //nolint:contextcheck // under what was just set
	}
	w.startFetchers() //nolint:contextcheck // under what was just set
	w.mu.Unlock()

	var rest sync.WaitGroup
	rest.Go(func() { w.watchLeases(inner) })
	if w.permits != nil {
		rest.Go(func() { w.permits.run(inner, w.letGo) })
	}
	w.pipe.Run(inner, &rest)

	select {
	case <-ctx.Done():
	case <-inner.Done():
	}
	w.stop(inner)
	cancel(nil)
	w.pipe.Close() // unblocks fetchers that wait for memory as well
	w.fetchers.Wait()
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.wg.Wait()
	rest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

// broken ends the run because the archive failed.
func (w *Worker) broken(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("worker: archive: %w", err)
	}
	w.fail(w.failed)
}

// stop shuts down in order: no new requests, those under way, the pages, the reports with the
// leases.
func (w *Worker) stop(ctx context.Context) {
	limit := w.cfg.StopTimeout
	if w.cfg.Alone != nil && w.cfg.Alone() {
		limit /= 6
	}
	whole, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	w.mu.Lock()
	w.stopping = true
	w.accept()
	w.sessions.CloseAll(time.Now())
	w.idle.wakeAll()
	w.mu.Unlock()

	part, cancelPart := context.WithTimeout(whole, limit/3)
	ended := wait(part, w.fetchers.Wait)
	cancelPart()
	if !ended {
		w.BreakOff()
		wait(whole, w.fetchers.Wait)
	}
	part, cancelPart = context.WithTimeout(whole, limit/3)
	w.pipe.Drain(part)
	cancelPart()
	w.mu.Lock()
	w.sessions.Speak(time.Now())
	w.mu.Unlock()
	w.silence(whole)
}

// silence waits until the sessions have ended, which they do when nothing is left to send.
func (w *Worker) silence(ctx context.Context) {
	for {
		w.mu.Lock()
		n := len(w.sessions.Sessions())
		w.mu.Unlock()
		if n == 0 {
			return
		}
		select {
		case <-w.quiet:
		case <-ctx.Done():
			return
		}
	}
}

// wait calls fn, which must return eventually, and reports whether it returned before ctx ended.
func wait(ctx context.Context, fn func()) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// Offer offers hosts of an owner to the worker. It requests leases, in a session, on those that it
// has capacity for, and returns the indexes of the others.
func (w *Worker) Offer(owner string, hosts []string) (declined []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions.Offer(time.Now(), owner, hosts)
}

// accept lets the sessions accept hosts, or decline them. The caller holds the mutex.
func (w *Worker) accept() { w.sessions.Accept(!w.paused && !w.stopping) }

// Visit waits until a request may be made to an address outside of the windows, such as a
// measurement, and counts it like any other: against the limit of concurrent requests and the
// delay. The caller calls leave when the request has ended. The error is that of ctx.
func (w *Worker) Visit(ctx context.Context, ip netip.Addr) (leave func(), err error) {
	for {
		w.mu.Lock()
		ok, due := w.visits.Frontier().Enter(time.Now(), ip)
		w.mu.Unlock()
		if ok {
			return func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.visits.Frontier().Leave(ip)
				w.wakeNext(time.Now())
			}, nil
		}
		t := time.NewTimer(time.Until(due))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}

// Pause stops fetching and gives all hosts back; offers are declined. Requests under way are
// completed.
func (w *Worker) Pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = true
	w.accept()
	w.sessions.CloseAll(time.Now())
}

// BreakOff cancels the exchanges under way; their URLs are given back untried. It is for a Pause
// that must not wait for them.
func (w *Worker) BreakOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits.BreakOff()
}

// SetFetchers changes the maximum number of concurrent fetches; with 0 none is started. Fetches
// under way are completed.
func (w *Worker) SetFetchers(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits.Allow(n)
	w.startFetchers()
	w.idle.wakeAll()
}

// SetMemory changes Config.MaxMemory.
func (w *Worker) SetMemory(bytes int64) { w.pipe.SetMemory(bytes) }

// startFetchers starts missing fetchers; surplus ones stay idle. The caller holds the mutex.
func (w *Worker) startFetchers() {
	if w.ctx == nil || w.stopping {
		return
	}
	for ; w.hired < w.visits.Allowed(); w.hired++ {
		ctx := w.ctx
		w.fetchers.Go(func() {
			f := fetcher{w: w, wake: make(chan struct{}, 1)}
			for v := f.next(ctx); v != nil; v = f.next(ctx) {
				f.visit(ctx, v)
			}
		})
	}
}

// SetBandwidth changes the limit under which fetches are admitted, in bytes a second; zero is no
// limit and no governor. The limiter that enforces it is not part of the worker.
func (w *Worker) SetBandwidth(rate int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.visits.Cap(rate, w.cfg.Governor); err != nil {
		w.log.Error("failed to create a governor for this bandwidth", "bandwidth", rate, "err", err)
		return
	}
	w.idle.wakeAll()
}

// Resume ends a Pause.
func (w *Worker) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = false
	w.accept()
}

// Capacity is the number of URLs that the worker accepts, Backlog the number that it holds.
func (w *Worker) Capacity() int { return w.cfg.Sessions.Capacity }

// Backlog is the number of URLs held.
func (w *Worker) Backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.visits.Backlog()
}

// Paused reports whether the worker is paused.
func (w *Worker) Paused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused
}

// watchLeases drops leases that have expired. The lease clock counts the time for which the process
// was stopped or suspended.
func (w *Worker) watchLeases(ctx context.Context) {
	period := min(250*time.Millisecond, w.cfg.Sessions.TTL/16)
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		w.mu.Lock()
		w.visits.Lapse(time.Now(), w.clock.Now())
		held := w.visits.Holds()
		w.mu.Unlock()
		if held {
			continue
		}
		// No lease is held: sleep until there is one.
		ticker.Stop()
		select {
		case <-w.watch:
		case <-ctx.Done():
			return
		}
		ticker.Reset(period)
	}
}
