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
	// stepMax bounds the requests that share one step, and so one batch: enough that a burst costs
	// one fsync, few enough that nobody waits long behind others.
	stepMax = 256
	// stepTime bounds what is taken in in one step; what is longer goes on in the next. Questions
	// are answered between two pieces of it, and so wait for no more than what a step comes to at
	// its end.
	stepTime = 10 * time.Millisecond
	// looksMax bounds the questions that wait.
	looksMax = 64
	// piecesAtLeast are taken in whatever time has gone by. On a busy machine the time may have
	// been that of others: steps of one piece would be so many that no answer came in time.
	piecesAtLeast = 4
	// stepsAhead bounds the steps that wait for the disk while the next is made.
	stepsAhead = 16
)

// Loop drives the owner: one goroutine makes steps, another waits for the disk and then lets
// answers and effects go, in their order. Nothing is acknowledged that a crash could lose, and no
// lock spans the disk. A request that is longer than a step goes on in the next ones, before any
// other request, and is acknowledged with the last; only questions come in between, within a step
// too.
type Loop struct {
	owner    *owner.Owner
	now      func() time.Time // the lease clock
	requests chan input
	looks    chan input         // questions, which are answered first
	going    *input             // what the last step did not come to the end of
	taken    time.Time          // when the request came that was taken last, by the lease clock
	room     func() func() bool // says for the step that begins whether it has time left
	effects  func(owner.Ready)  // called for each step once it is on disk; must not block
	done     chan struct{}      // closed when run has returned
	longest  atomic.Int64       // step of all, in nanoseconds
	log      *slog.Logger
}

// apply takes an input in, or a part of it, and says whether it is through.
type apply = func(*owner.Owner) (through bool)

// input is one input of a step, or of several. ended hears nil when the step with the last of it is
// on disk, or why it is not; it has room for that.
type input struct {
	waits *atomic.Pointer[apply] // nothing once it has begun, or whoever asked has given up
	apply apply                  // of one that has begun
	ended chan error
	came  time.Time // by the lease clock
	// seen says of a question that its answer need not wait for the disk.
	seen bool
}

// whole makes an input of one step of a function.
func whole(fn func(*owner.Owner)) input {
	return over(func(o *owner.Owner) bool {
		fn(o)
		return true
	})
}

// over makes an input of as many steps as fn takes.
func over(fn apply) input {
	r := input{ended: make(chan error, 1), waits: new(atomic.Pointer[apply])}
	r.waits.Store(&fn)
	return r
}

// begins says whether an input is still to be taken in.
func (r *input) begins() bool {
	if fn := r.waits.Swap(nil); fn != nil {
		r.apply = *fn
	}
	return r.apply != nil
}

// step is what one Commit came to, on its way through the disk.
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

// stepRoom says of a step that begins now whether it has time left.
func stepRoom() func() bool {
	begun, pieces := time.Now(), 0
	return func() bool {
		pieces++
		return pieces < piecesAtLeast || time.Since(begun) < stepTime
	}
}

// Do runs apply in a step and returns when the step is on disk. When ctx ends before its turn it is
// not run, and nothing is kept of it; if it had begun, or after another error, it may still run,
// or be running: what it writes may be read only when Do has returned nil.
func (l *Loop) Do(ctx context.Context, apply func(*owner.Owner)) error {
	return l.request(ctx, l.requests, whole(apply))
}

// DoOver is Do for what may take several steps: apply is called in one after another until it says
// that it is through. No other request comes in between.
func (l *Loop) DoOver(ctx context.Context, apply func(*owner.Owner) (through bool)) error {
	return l.request(ctx, l.requests, over(apply))
}

// Look runs fn, which changes nothing that is to be on disk, before all inputs that wait. What it
// sees need not be on disk yet. For an error see Do.
func (l *Loop) Look(ctx context.Context, fn func(*owner.Owner)) error {
	r := whole(fn)
	r.seen = true
	return l.request(ctx, l.looks, r)
}

// Ask is Look that returns when what fn saw is on disk.
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

// Post hands in an input without waiting for it; it is lost only when the loop ends.
func (l *Loop) Post(apply func(*owner.Owner)) {
	r := whole(apply)
	r.came = l.now()
	select {
	case l.requests <- r:
	case <-l.done:
	}
}

// run makes steps until ctx ends or the store fails, and returns when all that was begun is on disk
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

// handOn gives a step to release. While that is behind, as the disk or a replica is slow, questions
// are answered.
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

// answer answers a question by the state that the step has come to.
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

// answer answers the questions that wait, within a step.
func (l *Loop) answer(s *step) {
	n := len(l.looks)
	for range n {
		s.answer(l.owner, <-l.looks)
	}
	if n > 0 {
		runtime.Gosched() // who asked goes on now, and not when this has had its time on the processor
	}
}

// read is until when all requests that came have been taken in, by a step that begins with one, or
// with none.
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

// step takes what waits into one step of the owner: questions first, then what the last step did
// not come to the end of, then what came since.
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

// LongestStep is how long the longest step took, the disk left out: for so long a worker, a link or
// a question may have waited.
func (l *Loop) LongestStep() time.Duration { return time.Duration(l.longest.Load()) }

// release waits for the disk, step by step, and lets answers and effects go. After a failure
// nothing more is acknowledged, and the loop is told to stop.
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
