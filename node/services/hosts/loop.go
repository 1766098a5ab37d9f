package hosts

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/node/loop"
)

const (
	// stepMax bounds the requests of one step, and so of one batch: enough that a burst needs one
	// fsync, few enough for a short wait.
	stepMax = 256
	// stepTime bounds the input of one step; longer requests continue in the next. Queries are
	// answered between two pieces, and so wait only for the commit at the end of a step.
	stepTime = 10 * time.Millisecond
	// looksMax bounds the queued queries.
	looksMax = 64
	// piecesAtLeast are processed regardless of the time. On a busy machine other processes may use up
	// the time: with one piece per step, replies would be late.
	piecesAtLeast = 4
	// stepsAhead bounds the steps that wait for the disk while the next runs.
	stepsAhead = 16
)

// Loop drives the owner: one goroutine runs steps, another waits for the disk and then releases
// replies and effects in order. Nothing is acknowledged that a crash could lose, and no lock is
// held during disk writes. A request longer than a step continues in the next ones, before any
// other request, and is acknowledged with the last; only queries run in between, also within a
// step.
type Loop struct {
	owner    *owner.Owner
	now      func() time.Time // lease clock
	requests chan input
	looks    chan input         // queries, which are answered first
	going    *input             // unfinished input of the last step
	taken    time.Time          // lease-clock arrival of the request taken last
	room     func() func() bool // returns a check for a new step whether time is left
	effects  func(owner.Ready)  // called for each step once it is on disk; must not block
	done     chan struct{}      // closed when run has returned
	longest  atomic.Int64       // longest step, in nanoseconds
	log      *slog.Logger
}

// apply processes an input, or a part of it, and reports whether it is complete.
type apply = func(*owner.Owner) (through bool)

// input is an input of one or more steps. Ended receives nil when the step with the last part is on
// disk, or an error; it is buffered.
type input struct {
	waits *atomic.Pointer[apply] // nil once it has begun, or the caller has given up
	apply apply                  // set once begun
	ended chan error
	came  time.Time // by the lease clock
	// seen is set for a query whose reply need not wait for the disk.
	seen bool
}

// whole returns an input of one step.
func whole(fn func(*owner.Owner)) input {
	return over(func(o *owner.Owner) bool {
		fn(o)
		return true
	})
}

// over returns an input of as many steps as fn needs.
func over(fn apply) input {
	r := input{ended: make(chan error, 1), waits: new(atomic.Pointer[apply])}
	r.waits.Store(&fn)
	return r
}

// begins reports whether an input is still to be processed.
func (r *input) begins() bool {
	if fn := r.waits.Swap(nil); fn != nil {
		r.apply = *fn
	}
	return r.apply != nil
}

// step is the result of one Commit on its way to disk.
type step struct {
	ready owner.Ready
	ended []chan error
}

func newLoop(o *owner.Owner, now func() time.Time, effects func(owner.Ready), log *slog.Logger) *Loop {
	return &Loop{
		owner: o, now: now, requests: make(chan input, stepMax), looks: make(chan input, looksMax), room: stepRoom, effects: effects,
		done: make(chan struct{}), log: log,
	}
}

// stepRoom returns a check whether time is left in a step that begins now.
func stepRoom() func() bool {
	begun, pieces := time.Now(), 0
	return func() bool {
		pieces++
		return pieces < piecesAtLeast || time.Since(begun) < stepTime
	}
}

// Do runs apply in a step and returns when the step is on disk. If ctx ends before apply begins, it
// does not run. After it has begun, or after another error, it may still run or be running: its
// results may be read only when Do has returned nil.
func (l *Loop) Do(ctx context.Context, apply func(*owner.Owner)) error {
	return l.request(ctx, l.requests, whole(apply))
}

// DoOver is Do for input of several steps: apply is called in consecutive steps until it returns
// true. No other request runs in between.
func (l *Loop) DoOver(ctx context.Context, apply func(*owner.Owner) (through bool)) error {
	return l.request(ctx, l.requests, over(apply))
}

// Look runs fn, a read-only query, before all queued input. It may see state that is not yet on
// disk. For an error see Do.
func (l *Loop) Look(ctx context.Context, fn func(*owner.Owner)) error {
	r := whole(fn)
	r.seen = true
	return l.request(ctx, l.looks, r)
}

// Ask is Look, but returns when the state seen by fn is on disk.
func (l *Loop) Ask(ctx context.Context, fn func(*owner.Owner)) error {
	return l.request(ctx, l.looks, whole(fn))
}

func (l *Loop) request(ctx context.Context, to chan<- input, r input) error {
	r.came = l.now()
	select {
	case to <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return loop.ErrStopping
	}
	select {
	case err := <-r.ended:
		return err
	case <-ctx.Done():
		r.waits.Store(nil)
		return ctx.Err()
	case <-l.done:
	}
	select {
	case err := <-r.ended: // the loop ended with it, not before it
		return err
	default:
		return loop.ErrStopping
	}
}

// Post queues an input without waiting for it; it is lost only when the loop ends.
func (l *Loop) Post(apply func(*owner.Owner)) {
	r := whole(apply)
	r.came = l.now()
	select {
	case l.requests <- r:
	case <-l.done:
	}
}

// run runs steps until ctx ends or the store fails, and returns when everything begun is on disk
// and answered.
func (l *Loop) run(ctx context.Context) error {
	defer close(l.done)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	steps := make(chan step, stepsAhead)
	released := make(chan error, 1)
	go func() { released <- l.release(steps, stop) }()
	err := l.steps(ctx, steps)
	close(steps)
	if rerr := <-released; err == nil {
		err = rerr
	}
	return err
}

func (l *Loop) steps(ctx context.Context, out chan<- step) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		first, look := l.going, (*input)(nil)
		if first == nil {
			select {
			case r := <-l.requests:
				first = &r
			case r := <-l.looks:
				look = &r
			case <-timer.C:
			case <-ctx.Done():
				return nil
			}
		}
		begun := time.Now()
		s, err := l.step(look, first)
		l.longest.Store(max(l.longest.Load(), int64(time.Since(begun))))
		if err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		l.handOn(s, out)
		wait := time.Hour
		if !s.ready.Next.IsZero() {
			wait = max(0, s.ready.Next.Sub(l.now()))
		}
		timer.Reset(wait)
	}
	return nil
}

// handOn passes a step to release. While that is blocked by a slow disk or replica, queries are
// answered.
func (l *Loop) handOn(s step, out chan<- step) {
	for {
		select {
		case out <- s:
			return
		case r := <-l.looks:
			s.answer(l.owner, r)
		}
	}
}

// answer answers a query from the current state of the step.
func (s *step) answer(o *owner.Owner, r input) {
	if !r.begins() {
		return
	}
	r.apply(o)
	if r.seen {
		r.ended <- nil
	} else {
		s.ended = append(s.ended, r.ended)
	}
}

// answer answers queued queries within a step.
func (l *Loop) answer(s *step) {
	n := len(l.looks)
	for range n {
		s.answer(l.owner, <-l.looks)
	}
	if n > 0 {
		runtime.Gosched() // let the caller run now
	}
}

// read returns the time up to which all requests will have been processed by a step that begins
// with first, or without input.
func (l *Loop) read(now time.Time, first *input) time.Time {
	switch {
	case first != nil:
		return first.came
	case len(l.requests) > 0:
		return l.taken
	default:
		return now
	}
}

// step processes queued input in one step of the owner: queries, then the unfinished input of the
// last step, then new requests.
func (l *Loop) step(look, first *input) (step, error) {
	var s step
	now := l.now()
	l.owner.BeginBehind(now, l.read(now, first))
	if look != nil {
		s.answer(l.owner, *look)
	}
	l.answer(&s)
	timeLeft := l.room()
	room := func() bool {
		l.answer(&s)
		return timeLeft()
	}
	l.owner.Within(room)
	for n := 0; n < stepMax && (n == 0 || room()); n++ {
		r := first
		if first = nil; r == nil {
			select {
			case next := <-l.requests:
				r = &next
			default:
			}
		}
		if r == nil {
			break
		}
		l.taken = r.came
		if l.going = nil; !r.begins() {
			continue
		}
		if !r.apply(l.owner) {
			l.going = r
			break
		}
		s.ended = append(s.ended, r.ended)
	}
	ready, err := l.owner.Commit()
	s.ready = ready
	if err != nil {
		for _, ended := range s.ended {
			ended <- err
		}
	}
	return s, err
}

// LongestStep returns the duration of the longest step without disk writes: the longest delay of a
// worker, a link or a query.
func (l *Loop) LongestStep() time.Duration { return time.Duration(l.longest.Load()) }

// release waits for the disk, step by step, and releases replies and effects. After a failure
// nothing more is acknowledged, and the loop is stopped.
func (l *Loop) release(steps <-chan step, stop context.CancelFunc) error {
	var failed error
	for s := range steps {
		if failed == nil {
			if failed = s.ready.Wait(); failed != nil {
				stop()
			}
		}
		for _, ended := range s.ended {
			ended <- failed
		}
		if failed == nil {
			l.effects(s.ready)
		}
	}
	if failed != nil {
		return fmt.Errorf("owner: %w", failed)
	}
	return nil
}
