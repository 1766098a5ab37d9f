package dht

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// TestJoiningPeerServesOnlyWhenCleared: of three peers in a row the last serves the whole circle,
// the one before it is joining like ourselves and takes us for its predecessor. That does not say
// that we may serve.
func TestJoiningPeerServesOnlyWhenCleared(t *testing.T) {
	peers := []Peer{NewPeer("a", nil), NewPeer("b", nil), NewPeer("c", nil)}
	slices.SortFunc(peers, func(a, b Peer) int { return a.Key().Compare(b.Key()) })
	self, next, last := peers[0], peers[1], peers[2]
	joining := func(cleared bool) *wire.Neighbours {
		return &wire.Neighbours{
			Self: next.Wire(), State: wire.State_STATE_JOINING, Cleared: cleared,
			Predecessors: member.Wire([]Peer{self, last}), Successors: member.Wire([]Peer{last, self}),
		}
	}
	serving := func(start ring.Key) *wire.Neighbours {
		return &wire.Neighbours{
			Self: last.Wire(), State: wire.State_STATE_SERVING, ServedStart: start[:],
			Predecessors: member.Wire([]Peer{next, self}), Successors: member.Wire([]Peer{self, next}),
		}
	}
	for _, row := range []struct {
		name   string
		next   *wire.Neighbours
		last   *wire.Neighbours
		serves bool
	}{
		{"the arc of the last reaches over us", joining(false), serving(last.Key()), false},
		{"it does, whatever the next believes", joining(true), serving(last.Key()), false},
		{"it ends behind us, at the next", joining(false), serving(next.Key()), true},
		{"it ends at us, before the next serves", joining(false), serving(self.Key()), true},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := NewRing(Config{}, self, noTable{})
			now := time.Unix(1e9, 0)
			r.Tick(now)
			say := map[peer.ID]*wire.Neighbours{next.ID: row.next, last.ID: row.last}
			for range 20 {
				for id, said := range say {
					r.Handle(now, id, stabilizeRequest(said))
				}
				for _, call := range r.Ready().Calls {
					if call.Request.GetStabilizeRequest() != nil {
						r.Result(now, call.ID, stabilizeResponse(say[call.To.ID]), nil)
					} else {
						r.Result(now, call.ID, refusal(wire.Reason_REASON_BUSY, ""), nil)
					}
				}
				now = now.Add(300 * time.Millisecond)
				r.Tick(now)
			}
			if got := r.Serves(self.Key()); got != row.serves {
				t.Errorf("serves = %v", got)
			}
		})
	}
}
