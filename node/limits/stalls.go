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
	"github.com/apoidea/apoidea/node/stall"
)

// stallEvery is how often the peer is looked at for whether something moves.
const stallEvery = 5 * time.Second

// StallDeps are what the watch for stalls uses of the peer.
type StallDeps struct {
	// After is how long nothing may move, Every how often that is looked at; 0 for the usual.
	After, Every time.Duration
	DataDir      string // where stacks are kept
	// Ask returns when the owner's loop has answered.
	Ask func(ctx context.Context) error
	// Worker is what the worker has done, and has in hand; SiteBytes is what came from sites so
	// far.
	Worker    func() worker.Stats
	SiteBytes func() int64 // bytes from sites so far
	// Resting says that the worker is to do nothing: the peer is paused, or leaves.
	Resting func() bool
	Log     *slog.Logger // hears of each stall
}

// Stalls watches that something moves in the peer while there is work, and says when not.
type Stalls struct {
	StallDeps
	begun atomic.Int64
	// asking is set while the owner's loop is asked for nothing but an answer, answers counts
	// those.
	asking  atomic.Bool
	answers atomic.Int64
	// hangs is set while that has taken too long.
	hangs atomic.Bool

	mu      sync.Mutex
	stalled *control.Stalled // nil while all is well
}

// NewStalls makes the watch; Run has it look.
func NewStalls(d StallDeps) *Stalls { return &Stalls{StallDeps: d} }

// Times is how often nothing has moved since the start.
func (s *Stalls) Times() int64 { return s.begun.Load() }

// Now is how it is, nil while all is well.
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

// Run looks until ctx ends.
func (s *Stalls) Run(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	tick := time.NewTicker(cmp.Or(s.Every, stallEvery))
	defer tick.Stop()
	watches := [2]stall.Watch{{After: s.After}, {After: s.After}}
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
		for i, look := range [len(watches)]stall.Look{s.ownerLook(), s.workerLook()} {
			switch watches[i].See(now, look) {
			case stall.Begun:
				hang[i] = true
				s.begin(now, watches[i].Since(), look.Work)
			case stall.Over:
				hang[i] = false
				s.over(hang)
			case stall.None:
			}
		}
		s.hangs.Store(hang[0])
	}
}

// ask waits for an answer of the owner's loop.
func (s *Stalls) ask(ctx context.Context) {
	defer s.asking.Store(false)
	if s.Ask(ctx) == nil {
		s.answers.Add(1)
	}
}

// begin tells that nothing moves, and keeps what everybody is doing.
func (s *Stalls) begin(now, since time.Time, work string) {
	s.begun.Add(1)
	is := &control.Stalled{Since: since.Round(0), Work: work}
	path, err := stall.Stacks(filepath.Join(s.DataDir, "stalls"), now, work)
	if is.Stacks = path; err != nil {
		s.Log.Warn("stacks of what hangs not kept", "err", err)
	}
	s.set(is)
	s.Log.Error("nothing moves in the peer although there is work", "since", since.Format(time.RFC3339), "work", work, "stacks", path)
}

// over tells that something moves again, unless another part still hangs.
func (s *Stalls) over(hang [2]bool) {
	if hang[0] || hang[1] {
		return
	}
	s.Log.Warn("the peer moves again", "stood_still_since", s.Now().Since.Format(time.RFC3339))
	s.set(nil)
}

// ownerLook sees whether the owner's loop answers.
func (s *Stalls) ownerLook() stall.Look {
	look := stall.Look{Moved: s.answers.Load()}
	if s.asking.Load() {
		look.Work = "the owner of hosts owes an answer"
	}
	return look
}

// workerLook sees what the worker has done, and has to do.
func (s *Stalls) workerLook() stall.Look {
	w := s.Worker()
	look := stall.Look{Moved: movedBy(&w) + s.SiteBytes()}
	if !s.Resting() {
		look.Work = workOf(&w)
	}
	return look
}

// movedBy grows with whatever a worker gets done.
func movedBy(w *worker.Stats) int64 {
	sum := w.Requests + w.WireBytes + w.Acknowledged + w.Spilled + w.Lapsed + w.Dropped
	for _, count := range w.Outcomes {
		sum += count
	}
	return sum
}

// workOf says what a worker has to do at once; empty if that is nothing.
func workOf(w *worker.Stats) string {
	var work []string
	add := func(n int, what string) {
		if n > 0 {
			work = append(work, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(w.InFlight, "exchanges with sites under way")
	add(w.Processing, "pages between exchange and report")
	add(w.Unreported, "outcomes on their way to owners")
	if w.Due {
		work = append(work, "hosts that may be asked")
	}
	return strings.Join(work, ", ")
}

// OwnerHangs says that the owner's loop does not answer, so that nobody is to wait for it.
func (s *Stalls) OwnerHangs() bool { return s.hangs.Load() }
