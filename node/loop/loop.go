// Package loop provides helpers for a peer's goroutines: serialized execution ([Serial]), waiting
// and waking, and shutdown errors.
package loop

import (
	"context"
	"errors"
	"sync"
	"time"
)

// ErrStopping answers requests that reach a loop after it has ended.
var ErrStopping = errors.New("the peer is stopping")

// UnlessStopping drops the error of a part that found a loop ended: the loop's own error, if any,
// is the cause.
func UnlessStopping(err error) error {
	if errors.Is(err, ErrStopping) {
		return nil
	}
	return UnlessCanceled(err)
}

// UnlessCanceled drops an error that only reports cancellation.
func UnlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Sleep waits, or returns the error of ctx if that ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Wake wakes the goroutine waiting at c. c has capacity 1, so it does not block, and no wake-up is
// lost.
func Wake(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// maxRest is the maximum pause after one turn of a Desk.
const maxRest = time.Second

// Desk serializes callers, and pauses after each for as long as it took: together they use at most
// half a CPU, whatever their number. The zero value is ready for use. It is safe for concurrent
// use.
type Desk struct {
	once sync.Once
	free chan struct{} // holds a token while idle
}

// Turn returns when it is the caller's turn, which done ends, or with the error of ctx. With one
// waiting request per stream (calls.Endpoint.Long) peers take turns.
func (d *Desk) Turn(ctx context.Context) (done func(), err error) {
	d.once.Do(func() {
		d.free = make(chan struct{}, 1)
		d.free <- struct{}{}
	})
	select {
	case <-d.free:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	begun := time.Now()
	return func() {
		time.AfterFunc(min(time.Since(begun), maxRest), func() { d.free <- struct{}{} }) // never blocks: capacity 1
	}, nil
}

// Serial runs functions one after another on one goroutine, for a state machine that is not safe
// for concurrent use, without a lock held during disk I/O.
type Serial struct {
	work chan func()
	done chan struct{} // closed when Run has returned
}

// NewSerial returns a Serial; call Run.
func NewSerial() *Serial {
	return &Serial{work: make(chan func(), 64), done: make(chan struct{})}
}

// Run executes the functions passed to Do until ctx ends.
func (s *Serial) Run(ctx context.Context) error {
	defer close(s.done)
	for {
		select {
		case fn := <-s.work:
			fn()
		case <-ctx.Done():
			return nil
		}
	}
}

// Do runs fn on the goroutine of Run and returns when it has returned. After an error fn may never
// run, or run later: read its results only if Do returned nil.
func (s *Serial) Do(ctx context.Context, fn func()) error {
	ran := make(chan struct{})
	select {
	case s.work <- func() { defer close(ran); fn() }:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return ErrStopping
	}
	select {
	case <-ran:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
	}
	select {
	case <-ran: // the last that ran
		return nil
	default:
		return ErrStopping
	}
}

// Get is Do for a function with a result. If Do fails, late writes of fn are not read, unlike a
// named result written by a function given to Do.
func Get[T any](ctx context.Context, s *Serial, fn func() (T, error)) (T, error) {
	var got, none T
	var err error
	if derr := s.Do(ctx, func() { got, err = fn() }); derr != nil {
		return none, derr
	}
	return got, err
}

// DoOver is Do in several turns: fn is called again until it returns true, and others run in
// between.
func (s *Serial) DoOver(ctx context.Context, fn func() (through bool)) error {
	for through := false; !through; {
		if err := s.Do(ctx, func() { through = fn() }); err != nil {
			return err // and through may still be written
		}
	}
	return nil
}
