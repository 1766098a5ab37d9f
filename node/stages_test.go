package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestStages: parts wait until the peer serves, whoever asks it to leave hears what came of that,
// and an end that was not asked for is no request to leave.
func TestStages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStages()
		ended, end := context.WithCancel(t.Context())
		end()
		ran := false
		run := func(context.Context) error { ran = true; return nil }
		if err := s.afterReady(ended, run); err != nil || ran || !errors.Is(s.Ready(ended), context.Canceled) {
			t.Errorf("before it serves: ran %v, %v", ran, err)
		}
		close(s.ready)
		if err := s.afterReady(t.Context(), run); err != nil || !ran {
			t.Errorf("when it serves: ran %v, %v", ran, err)
		}
		if err := s.Leave(ended); !errors.Is(err, context.Canceled) || !s.Leaving() {
			t.Errorf("who does not wait hears %v, leaving %v", err, s.Leaving())
		}
		<-s.stop
		go s.ended(errNobody)
		if err := s.Leave(t.Context()); !errors.Is(err, errNobody) {
			t.Errorf("asked twice, it says %v", err)
		}
	})
	s := newStages()
	s.leaving.Store(true)
	s.BeginLeave()
	select {
	case <-s.stop:
		t.Error("a peer that ends anyway is told to leave")
	default:
	}
}
