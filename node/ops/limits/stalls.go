package limits

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/watchdog"
)

// stallEvery is the interval of checks for progress.
const stallEvery = 5 * time.Second

// StallDeps are the dependencies of Stalls.
type StallDeps struct {
	// After is the time without progress that is a stall, Every the interval of checks; 0 for the
	// defaults.
	After, Every time.Duration
	DataDir      string // for the stack files
	// Ask returns when the owner's loop has responded.
	Ask func(ctx context.Context) error
	// Worker returns what the worker has done and has in progress.
	Worker    func() worker.Stats
	SiteBytes func() int64 // bytes received from sites so far
	// Resting reports that the worker is idle on purpose: the peer is paused, or leaves.
	Resting func() bool
	Log     *slog.Logger // receives each stall
}

// Stalls is the stall watchdog: it detects that a peer with work makes no progress.
type Stalls struct {
	StallDeps
	begun atomic.Int64
	// asking is set while a probe of the owner's loop is pending; answers counts responses.
	asking  atomic.Bool
	answers atomic.Int64
	// hangs is set while a probe has timed out.
	hangs atomic.Bool

	mu      sync.Mutex
	stalled *control.Stalled // nil without a stall
}

// NewStalls returns a watchdog; Run starts it.
func NewStalls(d StallDeps) *Stalls { return &Stalls{StallDeps: d} }

// Times returns the number of stalls since the start.
func (s *Stalls) Times() int64 { return s.begun.Load() }

// Now returns the current stall, nil if there is none.
func (s *Stalls) Now() *control.Stalled {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stalled == nil {
		return nil
	}
	c := *s.stalled
	return &c
}

func (s *Stalls) set(to *control.Stalled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stalled = to
}

// Run checks for progress until ctx ends.
func (s *Stalls) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	tick := time.NewTicker(cmp.Or(s.Every, stallEvery))
	defer tick.Stop()
	watches := [2]watchdog.Watch{{After: s.After}, {After: s.After}}
	var hang [len(watches)]bool
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if s.asking.CompareAndSwap(false, true) {
			asking.Go(func() { s.ask(ctx) })
		}
		now := time.Now()
		for i, look := range [len(watches)]watchdog.Look{s.ownerLook(), s.workerLook()} {
			switch watches[i].See(now, look) {
			case watchdog.Begun:
				hang[i] = true
				s.begin(now, watches[i].Since(), look.Work)
			case watchdog.Over:
				hang[i] = false
				s.over(hang)
			case watchdog.None:
			}
		}
		s.hangs.Store(hang[0])
	}
}

// ask waits for a response of the owner's loop.
func (s *Stalls) ask(ctx context.Context) {
	defer s.asking.Store(false)
	if s.Ask(ctx) == nil {
		s.answers.Add(1)
	}
}

// begin logs a stall and stores the stacks of all goroutines.
func (s *Stalls) begin(now, since time.Time, work string) {
	s.begun.Add(1)
	is := &control.Stalled{Since: since.Round(0), Work: work}
	path, err := watchdog.Stacks(filepath.Join(s.DataDir, "stalls"), now, work)
	if is.Stacks = path; err != nil {
		s.Log.Warn("write stack file of stall", "err", err)
	}
	s.set(is)
	s.Log.Error("peer stalled: no progress with work pending", "since", since.Format(time.RFC3339), "work", work, "stacks", path)
}

// over logs the end of a stall, unless another part is still stalled.
func (s *Stalls) over(hang [2]bool) {
	if hang[0] || hang[1] {
		return
	}
	s.Log.Warn("peer recovered from stall", "stood_still_since", s.Now().Since.Format(time.RFC3339))
	s.set(nil)
}

// ownerLook observes whether the owner's loop responds.
func (s *Stalls) ownerLook() watchdog.Look {
	look := watchdog.Look{Moved: s.answers.Load()}
	if s.asking.Load() {
		look.Work = "a response of the owner's loop"
	}
	return look
}

// workerLook observes what the worker has done and has to do.
func (s *Stalls) workerLook() watchdog.Look {
	w := s.Worker()
	look := watchdog.Look{Moved: movedBy(&w) + s.SiteBytes()}
	if !s.Resting() {
		look.Work = workOf(&w)
	}
	return look
}

// movedBy grows with any progress of the worker.
func movedBy(w *worker.Stats) int64 {
	sum := w.Requests + w.WireBytes + w.Acknowledged + w.Lapsed + w.Dropped
	for _, count := range w.Outcomes {
		sum += count
	}
	return sum
}

// workOf describes the work that is due; empty if none.
func workOf(w *worker.Stats) string {
	var work []string
	add := func(n int, what string) {
		if n > 0 {
			work = append(work, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(w.InFlight, "fetches in progress")
	add(w.Processing, "pages in processing")
	add(w.Unreported, "outcomes not yet reported to owners")
	if w.Due {
		work = append(work, "hosts due for a fetch")
	}
	return strings.Join(work, ", ")
}

// OwnerHangs reports that the owner's loop does not respond, so that callers must not wait for it.
func (s *Stalls) OwnerHangs() bool { return s.hangs.Load() }
