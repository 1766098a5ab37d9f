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
	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/worker/clock"
	"github.com/apoidea/apoidea/crawl/worker/pages"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
	"github.com/apoidea/apoidea/crawl/worker/visits"
)

// Worker crawls hosts for their owners. Create it with New, run it once.
type Worker struct {
	cfg   Config
	deps  Deps
	log   *slog.Logger
	clock Clock
	known *reports.Known
	jobs  *reports.Jobs
	stats stats
	pipe  *pages.Pipeline
	slot  chan struct{} // taken while a large robots.txt is read
	// permits is nil where there is no limit that all workers share.
	permits *permits

	telling atomic.Int64  // bytes of outcomes that owners who answer have not acknowledged
	watch   chan struct{} // something is held
	quiet   chan struct{} // a session has ended

	mu       sync.Mutex // guards what follows
	visits   *visits.Machine
	sessions *session.Machine                   // the same one's
	speakers map[*session.Session]chan struct{} // what wakes who speaks to an owner
	granting map[job.ID]*reports.Job            // the jobs of the answer that is being taken in
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

// New returns a worker that holds nothing and does nothing before Run.
func New(cfg Config, deps Deps) (*Worker, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.fill()
	if deps.Owners == nil || deps.Fetch == nil || deps.Archive == nil || deps.Content == nil || deps.Jobs == nil {
		return nil, errors.New("worker: a neighbour is missing")
	}
	if deps.Estimates == nil {
		deps.Estimates = bandwidth.NewEstimates(bandwidth.EstimatesConfig{})
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	if deps.Clock == nil {
		deps.Clock = clock.New()
	}
	w := &Worker{
		cfg: cfg, deps: deps, log: deps.Log, clock: deps.Clock, known: reports.NewKnown(cfg.KnownLinks), jobs: reports.NewJobs(deps.Jobs),
		permits: newPermits(&cfg, deps.Permits), slot: make(chan struct{}, 1), watch: make(chan struct{}, 1), quiet: make(chan struct{}, 1),
		speakers: make(map[*session.Session]chan struct{}),
	}
	w.idle = idlers{mu: &w.mu}
	w.visits = visits.New(w.decisions(), driver{w})
	w.sessions = w.visits.Sessions()
	w.pipe = pages.NewPipeline(cfg.pages(), pages.Deps{
		Archive: deps.Archive, Content: deps.Content, Spill: deps.Spill, Known: w.known, Log: w.log,
	}, finisher{w})
	return w, nil
}

// Run works until ctx ends or the archive fails, whose error it returns. At the end it starts no
// request, lets those under way finish or cancels them, archives and reports what was fetched,
// gives its leases back, and returns within Config.StopTimeout and a moment.
func (w *Worker) Run(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	w.mu.Lock()
	if w.ctx != nil {
		w.mu.Unlock()
		return errors.New("worker: it ran before")
	}
	w.ctx, w.fail = inner, cancel
	for _, s := range w.sessions.Sessions() {
		w.speak(s) //nolint:contextcheck // under what was just set
	}
	w.startFetchers() //nolint:contextcheck // it hires under what was just set
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
	w.pipe.Close() // frees fetchers that wait for room as well
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

// stop is the order of leaving: no new request, those under way, the pages, the reports with the
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
	w.pipe.Hasten()

	part, cancelPart := context.WithTimeout(whole, limit/3)
	ended := wait(part, w.fetchers.Wait)
	cancelPart()
	if !ended {
		w.BreakOff()
		wait(whole, w.fetchers.Wait)
	}
	w.pipe.Drain(whole)
	w.mu.Lock()
	w.sessions.Speak(time.Now())
	w.mu.Unlock()
	w.silence(whole)
}

// silence waits until the sessions have ended, as they do when they have nothing left to say.
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

// wait calls fn, which ends sooner or later, and reports whether it did before ctx ended.
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

// Offer asks the worker to take hosts from an owner. It takes what it has room for and says so in a
// session; the indexes of the others are returned.
func (w *Worker) Offer(owner string, hosts []string) (declined []int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sessions.Offer(time.Now(), owner, hosts)
}

// accept has the sessions take hosts on, or not. Under the mutex.
func (w *Worker) accept() { w.sessions.Accept(!w.paused && !w.stopping) }

// Visit waits until a request may be made to an address outside of the windows, such as one that
// measures, and counts it like any other: no more at once than may be, none too soon after the
// last. Leave has to be called when the request has ended. The error is that of ctx.
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
// finished.
func (w *Worker) Pause() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = true
	w.accept()
	w.sessions.CloseAll(time.Now())
}

// BreakOff breaks off the exchanges under way; their URLs are given back untried. It is for a Pause
// that must not wait for them.
func (w *Worker) BreakOff() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits.BreakOff()
}

// SetFetchers changes how many exchanges may be under way at once, from now on; with 0 none is
// begun. Those under way are finished.
func (w *Worker) SetFetchers(n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.visits.Allow(n)
	w.startFetchers()
	w.idle.wakeAll()
}

// SetMemory changes what Config.MaxMemory bounds, from now on.
func (w *Worker) SetMemory(bytes int64) { w.pipe.SetMemory(bytes) }

// startFetchers starts the fetchers that are missing; those that are too many find nothing to do.
// Under the mutex.
func (w *Worker) startFetchers() {
	if w.ctx == nil || w.stopping {
		return
	}
	for ; w.hired < w.visits.Allowed(); w.hired++ {
		ctx := w.ctx
		w.fetchers.Go(func() { w.fetchLoop(ctx) })
	}
}

// SetBandwidth changes the cap that fetches are admitted under, in bytes a second, at once; zero is
// none, and then nothing is governed. The limiter that holds the cap is not the worker's.
func (w *Worker) SetBandwidth(rate int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.visits.Cap(rate, w.cfg.Governor); err != nil {
		w.log.Error("no governor for this bandwidth", "bandwidth", rate, "err", err)
		return
	}
	w.idle.wakeAll()
}

// Estimates lends the table of what rates servers have, under the worker's mutex: fn must not
// block.
func (w *Worker) Estimates(fn func(e *bandwidth.Estimates)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	fn(w.deps.Estimates)
}

// Resume ends a Pause.
func (w *Worker) Resume() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = false
	w.accept()
}

// Capacity is the number of URLs that the worker would hold, Backlog that which it holds.
func (w *Worker) Capacity() int { return w.cfg.Capacity }

// Backlog is the number of URLs held.
func (w *Worker) Backlog() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.visits.Backlog()
}

// Paused says whether a Pause holds.
func (w *Worker) Paused() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused
}

// watchLeases drops leases that have lapsed. The lease clock counts the time for which the process
// was stopped or suspended.
func (w *Worker) watchLeases(ctx context.Context) {
	period := min(250*time.Millisecond, w.cfg.TTL/16)
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
		// Nothing is held: sleep until something is.
		ticker.Stop()
		select {
		case <-w.watch:
		case <-ctx.Done():
			return
		}
		ticker.Reset(period)
	}
}
