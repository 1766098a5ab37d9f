package dht

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/wire"
)

// TestWorkerStandsInNoLeafSet: what a worker says, and what is said of it, brings it into no leaf
// set; nor may another attach it.
func TestWorkerStandsInNoLeafSet(t *testing.T) {
	now := time.Unix(1e9, 0)
	r := NewRing(Config{Found: true}, NewPeer("member", nil), noTable{})
	r.Tick(now)
	worker := NewPeer("worker", nil)
	said := &wire.Neighbours{Self: worker.Wire(), State: wire.State_STATE_JOINING}
	r.Handle(now, worker.ID, stabilizeRequest(said))
	if r.Size() != 2 {
		t.Fatalf("ring of %d", r.Size())
	}
	r.Ready()
	worker.Role = RoleWorker
	if answer := r.Handle(now, worker.ID, attachRequest(worker, false)); !answer.GetAttachResponse().GetAccepted() || r.Size() != 1 {
		t.Errorf("answer %v, ring of %d", answer, r.Size())
	}
	said = &wire.Neighbours{Self: worker.Wire(), State: wire.State_STATE_WORKER}
	r.Handle(now, worker.ID, stabilizeRequest(said))
	other := NewPeer("other", nil)
	r.Handle(now, other.ID, stabilizeRequest(&wire.Neighbours{Self: other.Wire(), Successors: []*wire.Peer{worker.Wire()}}))
	for _, call := range r.Ready().Calls {
		if call.To.ID == worker.ID {
			t.Error("a worker is called")
		}
	}
	if got := r.Attached(); len(got) != 1 || r.Size() != 2 {
		t.Errorf("attached %v, ring of %d", got, r.Size())
	}
	if answer := r.Handle(now, other.ID, attachRequest(worker, true)); answer.GetRefusal() == nil {
		t.Error("another detaches a worker")
	}
	r.Disconnected(now, worker.ID)
	if got := r.Attached(); len(got) != 0 {
		t.Errorf("attached without a connection: %v", got)
	}
}
