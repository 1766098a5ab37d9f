package node

import (
	"context"
	"sync/atomic"

	"github.com/apoidea/apoidea/node/loop"
)

// stages are the states of a peer's life: furnished, ready, asked to leave, left. Each is reached
// at most once; only the last always is.
type stages struct {
	furnished chan struct{} // closed when all parts are built
	ready     chan struct{} // closed when the peer serves
	stop      chan struct{} // closed by a request to leave
	leaving   atomic.Bool   // asked to leave, or ending for another reason
	left      chan struct{} // closed when the peer has left the ring, or ends without leaving
	leftErr   error         // result of leaving; read it after left
}

func newStages() *stages {
	return &stages{furnished: make(chan struct{}), ready: make(chan struct{}), stop: make(chan struct{}), left: make(chan struct{})}
}

// Ready returns when the peer serves its arc.
func (s *stages) Ready(ctx context.Context) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// afterReady runs a part once the peer serves.
func (s *stages) afterReady(ctx context.Context, run func(context.Context) error) error {
	if err := s.Ready(ctx); err != nil {
		return loop.UnlessCanceled(err)
	}
	return run(ctx)
}

// Leave implements control.Backend. Run does the work; ctx ends the wait and not the leaving.
func (s *stages) Leave(ctx context.Context) error {
	s.BeginLeave()
	select {
	case <-s.left:
		return s.leftErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BeginLeave makes Run stop the work, hand over this peer's records, and return.
func (s *stages) BeginLeave() {
	if s.leaving.CompareAndSwap(false, true) {
		close(s.stop)
	}
}

// Leaving reports whether the peer ends, or was asked to.
func (s *stages) Leaving() bool { return s.leaving.Load() }

// ended reports the result of leaving to the callers of Leave.
func (s *stages) ended(err error) {
	s.leftErr = err
	close(s.left)
}
