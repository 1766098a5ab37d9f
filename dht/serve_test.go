package dht

import (
	"context"
	"fmt"
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

// TestLiarsKeepNoJoinerOut: a peer that stands behind one which serves says that the whole circle
// is its own, and names ever new peers that do not answer. A joining peer serves all the same.
func TestLiarsKeepNoJoinerOut(t *testing.T) {
	peers := []Peer{NewPeer("a", nil), NewPeer("b", nil), NewPeer("c", nil)}
	slices.SortFunc(peers, func(a, b Peer) int { return a.Key().Compare(b.Key()) })
	self, next, liar := peers[0], peers[1], peers[2]
	at, whole := self.Key(), liar.Key()
	for _, blamed := range []bool{true, false} { // without blame it stands for many liars
		made := 0
		word := func(id peer.ID) *wire.Neighbours {
			if id == next.ID {
				return &wire.Neighbours{
					Self: next.Wire(), State: wire.State_STATE_SERVING, ServedStart: at[:],
					Predecessors: member.Wire([]Peer{self, liar}), Successors: member.Wire([]Peer{liar, self}),
				}
			}
			named := []Peer{self, next}
			for range 4 {
				made++
				named = append(named, NewPeer(peer.ID(fmt.Sprint("made", made)), nil))
			}
			return &wire.Neighbours{Self: liar.Wire(), State: wire.State_STATE_SERVING, ServedStart: whole[:], Predecessors: member.Wire(named), Successors: member.Wire(named)}
		}
		r := NewRing(Config{}, self, noTable{})
		now := time.Unix(1e9, 0)
		begun, silent := now, map[uint64]time.Time{}
		r.Tick(now)
		for !r.Serves(self.Key()) && now.Sub(begun) < time.Minute {
			if !blamed {
				clear(r.introducer.blamed)
			}
			for _, id := range []peer.ID{next.ID, liar.ID} {
				r.Handle(now, id, stabilizeRequest(word(id)))
			}
			for _, call := range r.Ready().Calls {
				switch {
				case call.To.ID != next.ID && call.To.ID != liar.ID:
					silent[call.ID] = now.Add(call.Timeout)
				case call.Request.GetStabilizeRequest() != nil:
					r.Result(now, call.ID, stabilizeResponse(word(call.To.ID)), nil)
				default:
					r.Result(now, call.ID, refusal(wire.Reason_REASON_BUSY, ""), nil)
				}
			}
			for id, until := range silent {
				if !now.Before(until) {
					delete(silent, id)
					r.Result(now, id, nil, context.DeadlineExceeded)
				}
			}
			now = now.Add(100 * time.Millisecond)
			r.Tick(now)
		}
		if took := now.Sub(begun); took > 10*time.Second || made < 4 {
			t.Errorf("blamed %v: it serves after %v, with %d peers made up", blamed, took, made)
		}
	}
}
