package node

import (
	"context"
	"sync/atomic"

	"github.com/apoidea/apoidea/node/loop"
)

// stages are how far the life of a peer is: furnished, ready, asked to leave, left. Each is reached
// once; only the last is sure to be.
type stages struct {
	furnished chan struct{} // closed when all rooms are there
	ready     chan struct{} // closed when the peer serves
	stop      chan struct{} // closed when somebody asks it to leave
	leaving   atomic.Bool   // asked to leave, or ending for another reason
	left      chan struct{} // closed when the peer has left the ring, or ends without having done so
	leftErr   error         // what leaving came to; to be read after left
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

// Leave implements control.Backend. It needs Run, which does the work; ctx ends the wait and not
// the leaving.
func (s *stages) Leave(ctx context.Context) error {
	s.BeginLeave()
	select {
	case <-s.left:
		return s.leftErr
	case <-ctx.Done():
		return ctx.Err()
	}
}

// BeginLeave has Run stop the work, hand over what this peer keeps, and return.
func (s *stages) BeginLeave() {
	if s.leaving.CompareAndSwap(false, true) {
		close(s.stop)
	}
}

// Leaving says whether the peer ends, or was asked to.
func (s *stages) Leaving() bool { return s.leaving.Load() }

// ended tells who asked the peer to leave what that came to.
func (s *stages) ended(err error) {
	s.leftErr = err
	close(s.left)
}
