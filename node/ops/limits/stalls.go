package limits

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage"
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
	watches := [2]watchdog{{after: s.After}, {after: s.After}}
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
		for i, look := range [len(watches)]observation{s.observeOwner(), s.observeWorker()} {
			switch watches[i].observe(now, look) {
			case stallBegan:
				hang[i] = true
				s.begin(now, watches[i].stalledSince(), look.Work)
			case stallEnded:
				hang[i] = false
				s.over(hang)
			case noChange:
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
	path, err := writeStacks(filepath.Join(s.DataDir, "stalls"), now, work)
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

// observeOwner observes whether the owner's loop responds.
func (s *Stalls) observeOwner() observation {
	look := observation{Moved: s.answers.Load()}
	if s.asking.Load() {
		look.Work = "a response of the owner's loop"
	}
	return look
}

// observeWorker observes what the worker has done and has to do.
func (s *Stalls) observeWorker() observation {
	w := s.Worker()
	look := observation{Moved: movedBy(&w) + s.SiteBytes()}
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

// After is the time without progress that is a stall. No fetch waits as long for a byte, no owner
// for an acknowledgement.
const stallAfter = time.Minute

// maxObservationGap is the maximum distance of two observations that count: a process stopped in
// between is not stalled.
const maxObservationGap = 15 * time.Second

// observation is one observation of a peer.
type observation struct {
	// Moved is a sum of counters that grow with progress; a change since the last observation is
	// progress.
	Moved int64
	// Work describes work that is due, empty if none: no pause, limit or crawl delay holds it back.
	Work string
}

// watchdog records the time without progress, as after a deadlock that no timeout has ended. It is
// a state machine without timers. The zero value is ready for use, by one goroutine.
type watchdog struct {
	// after replaces the constant; zero: the constant.
	after time.Duration

	looked  time.Time
	since   time.Time // last progress, or last time without work
	moved   int64
	stalled bool
}

// stallChange is the result of an observation.
type stallChange uint8

// The changes.
const (
	noChange stallChange = iota
	// Begun: a stall begins.
	stallBegan
	// Over: progress was made, or no work is left.
	stallEnded
)

// observe records an observation.
func (w *watchdog) observe(now time.Time, l observation) stallChange {
	after := w.after
	if after == 0 {
		after = stallAfter
	}
	apart := now.Sub(w.looked)
	calm := w.looked.IsZero() || apart > maxObservationGap || apart < 0
	moves := l.Work == "" || l.Moved != w.moved
	if calm && !w.stalled || moves {
		w.since = now
	}
	w.looked, w.moved = now, l.Moved
	switch {
	case moves && w.stalled:
		w.stalled = false
		return stallEnded
	case !w.stalled && now.Sub(w.since) >= after:
		w.stalled = true
		return stallBegan
	default:
		return noChange
	}
}

// stalledSince returns the time of the last progress.
func (w *watchdog) stalledSince() time.Time { return w.since }

const (
	prefix = "stall-"
	suffix = ".txt"
	// maxFiles limits the stack files, maxStacks the bytes of one.
	maxFiles  = 4
	maxStacks = 8 << 20
)

// writeStacks writes the stacks of all goroutines to a new file in dir, which it creates if
// missing, and removes the oldest files beyond four.
func writeStacks(dir string, now time.Time, why string) (path string, err error) {
	buf := make([]byte, 256<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, min(2*n, maxStacks))
		n = runtime.Stack(buf, true)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	path = filepath.Join(dir, prefix+now.UTC().Format("20060102T150405.000Z")+suffix)
	text := append(fmt.Appendf(nil, "%s: %s\n\n", now.UTC().Format(time.RFC3339), why), buf[:n]...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	return path, prune(dir)
}

// prune removes the oldest files beyond maxFiles; their names sort by time.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names[:max(len(names)-maxFiles, 0)] {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}

// diskEvery is the interval of free space checks; at 100 MB/s the default reserve lasts longer.
const diskEvery = time.Second

// MoreRoom is the fix for a reached disk reserve.
const MoreRoom = "free some space, or start with a lower --disk-reserve (and --forget-limits if limits set raised it)"

// WatchDisk returns an error, which stops the peer, when the disk reserve is reached or the store
// has failed. Data written before stays valid.
func WatchDisk(ctx context.Context, dir string, reserve func() uint64, store *storage.Store) error {
	tick := time.NewTicker(diskEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			if err := storage.NewGuard(dir, reserve()).Check(); err != nil {
				return &control.Error{Kind: control.KindFailed, Text: fmt.Sprintf("stopped: %v; %s; the crawl continues where it stopped", err, MoreRoom)}
			}
		case <-store.Failed():
			return fmt.Errorf("stopped: %w", store.Err())
		case <-ctx.Done():
			return nil
		}
	}
}
