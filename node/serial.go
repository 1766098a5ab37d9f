package node

import (
	"context"
	"errors"
)

// errStopping answers requests that reach a loop after it has ended.
var errStopping = errors.New("the peer is stopping")

// serial runs functions one after another on one goroutine: the home of a state machine that is not safe for concurrent use, without a
// lock that would be held over the disk.
type serial struct {
	work chan func()
	done chan struct{} // closed when run has returned
}

func newSerial() *serial {
	return &serial{work: make(chan func(), 64), done: make(chan struct{})}
}

// run executes what do hands over until ctx ends.
func (s *serial) run(ctx context.Context) error {
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

// do runs fn on the goroutine of run and returns when it has returned. After an error fn may never run, or run later: what it writes may be
// read only when do has returned nil.
func (s *serial) do(ctx context.Context, fn func()) error {
	ran := make(chan struct{})
	select {
	case s.work <- func() { defer close(ran); fn() }:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return errStopping
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
		return errStopping
	}
}

// doOver is do for what takes several turns: fn is called again until it says that it is through, and others have theirs in between.
func (s *serial) doOver(ctx context.Context, fn func() (through bool)) error {
	for through := false; !through; {
		if err := s.do(ctx, func() { through = fn() }); err != nil {
			return err // and through may still be written
		}
	}
	return nil
}

// unlessStopping drops the error of a part that found a loop ended: the loop's own error, if it has one, says why.
func unlessStopping(err error) error {
	if errors.Is(err, errStopping) {
		return nil
	}
	return unlessCanceled(err)
}
