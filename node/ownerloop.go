package node

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
)

const (
	// stepMax bounds the requests that share one step, and so one batch: enough that a burst costs one fsync, few enough that nobody waits
	// long behind others.
	stepMax = 256
	// stepsAhead bounds the steps that wait for the disk while the next is made.
	stepsAhead = 16
)

// ownerLoop drives the owner: one goroutine makes steps, another waits for the disk and then lets answers and effects go, in their order.
// Nothing is acknowledged that a crash could lose, and no lock spans the disk.
type ownerLoop struct {
	owner    *owner.Owner
	now      func() time.Time // the lease clock
	requests chan ownerRequest
	effects  func(owner.Ready) // called for each step once it is on disk; must not block
	done     chan struct{}     // closed when run has returned
	log      *slog.Logger
}

// ownerRequest is one input of a step. ended hears nil when the step is on disk, or why it is not; it has room for that.
type ownerRequest struct {
	apply func(*owner.Owner)
	ended chan error
	// read says that apply changes nothing, so that its answer need not wait for the disk.
	read bool
}

// step is what one Commit came to, on its way through the disk.
type step struct {
	ready owner.Ready
	ended []chan error
}

func newOwnerLoop(o *owner.Owner, now func() time.Time, effects func(owner.Ready), log *slog.Logger) *ownerLoop {
	return &ownerLoop{owner: o, now: now, requests: make(chan ownerRequest, stepMax), effects: effects, done: make(chan struct{}), log: log}
}

// do runs apply in a step and returns when the step is on disk. After an error apply may still run, or be running: what it writes may be read
// only when do has returned nil.
func (l *ownerLoop) do(ctx context.Context, apply func(*owner.Owner)) error {
	return l.request(ctx, ownerRequest{apply: apply, ended: make(chan error, 1)})
}

// look runs fn, which changes nothing, between other inputs. What it sees need not be on disk yet. For an error see do.
func (l *ownerLoop) look(ctx context.Context, fn func(*owner.Owner)) error {
	return l.request(ctx, ownerRequest{apply: fn, ended: make(chan error, 1), read: true})
}

func (l *ownerLoop) request(ctx context.Context, r ownerRequest) error {
	select {
	case l.requests <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
		return errStopping
	}
	select {
	case err := <-r.ended:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-l.done:
	}
	select {
	case err := <-r.ended: // the loop ended with it, not before it
		return err
	default:
		return errStopping
	}
}

// post hands in an input without waiting for it; it is lost only when the loop ends.
func (l *ownerLoop) post(apply func(*owner.Owner)) {
	select {
	case l.requests <- ownerRequest{apply: apply, ended: make(chan error, 1)}:
	case <-l.done:
	}
}

// run makes steps until ctx ends or the store fails, and returns when all that was begun is on disk and answered.
func (l *ownerLoop) run(ctx context.Context) error {
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

func (l *ownerLoop) steps(ctx context.Context, out chan<- step) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var first *ownerRequest
		select {
		case r := <-l.requests:
			first = &r
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		s, err := l.step(first)
		if err != nil {
			return fmt.Errorf("owner: %w", err)
		}
		out <- s
		wait := time.Hour
		if !s.ready.Next.IsZero() {
			wait = max(0, s.ready.Next.Sub(l.now()))
		}
		timer.Reset(wait)
	}
}

// step takes what waits into one step of the owner.
func (l *ownerLoop) step(first *ownerRequest) (step, error) {
	var s step
	l.owner.Begin(l.now())
	take := func(r ownerRequest) {
		r.apply(l.owner)
		if r.read {
			r.ended <- nil
			return
		}
		s.ended = append(s.ended, r.ended)
	}
	if first != nil {
		take(*first)
	}
	for n := 1; n < stepMax; n++ {
		select {
		case r := <-l.requests:
			take(r)
			continue
		default:
		}
		break
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

// release waits for the disk, step by step, and lets answers and effects go. After a failure nothing more is acknowledged, and the loop is
// told to stop.
func (l *ownerLoop) release(steps <-chan step, stop context.CancelFunc) error {
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
