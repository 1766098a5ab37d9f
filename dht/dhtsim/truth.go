package dhtsim

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// Living returns the live peers by position. The Sim owns the slice.
func (s *Sim) Living() []*Node { return s.sorted }

// Size returns the number of live peers.
func (s *Sim) Size() int { return len(s.sorted) }

// Members returns the live ring members by position. The Sim may own the slice.
func (s *Sim) Members() []*Node {
	if !s.mixed {
		return s.sorted
	}
	return slices.DeleteFunc(slices.Clone(s.sorted), func(n *Node) bool { return !n.Started() || n.State() == dht.Worker })
}

// tabled returns the live peers that fill the routing tables of a peer's kad-dht network, by
// position.
func (s *Sim) tabled(of *Node) []*Node {
	if !s.mixed {
		return s.sorted
	}
	network := func(n *Node) int {
		if s.world.Ring == nil {
			return 0
		}
		return s.world.Ring(n.Index)
	}
	return slices.DeleteFunc(slices.Clone(s.sorted), func(n *Node) bool { return !n.member() || network(n) != network(of) })
}

// Truth returns the live ring member that owns a key, by the full list; there must be one.
func (s *Sim) Truth(key ring.Key) *Node {
	members := s.Members()
	return members[at(members, key)%len(members)]
}

// truth returns the index of a key's owner among the live peers.
func (s *Sim) truth(key ring.Key) int { return at(s.sorted, key) % len(s.sorted) }

func (s *Sim) arc(i int) ring.Arc { return arc(s.sorted, i) }

// arc returns the arc of the i-th peer.
func arc(sorted []*Node, i int) ring.Arc {
	return ring.Arc{Start: sorted[(i+len(sorted)-1)%len(sorted)].key, End: sorted[i].key}
}

// Settled returns an error until the ring is consistent: each live ring member serves exactly its
// arc and has the correct leaf set.
func (s *Sim) Settled() error {
	living := s.Members()
	size := len(living)
	for i, n := range living {
		if !n.Started() {
			return fmt.Errorf("peer %d is not started", n.Index)
		}
		serving, serves := s.Arc(n)
		if want := arc(living, i); !serves || serving != want {
			return fmt.Errorf("peer %d (%s) serves %v %s, expected %s", n.Index, n.State(), serves, serving, want)
		}
		preds, succs := n.Leaves()
		side := min(size-1, max(len(preds), len(succs), ring.DefaultR))
		if len(preds) != side || len(succs) != side {
			return fmt.Errorf("peer %d has %d predecessors and %d successors, expected %d", n.Index, len(preds), len(succs), side)
		}
		for d := range side {
			if preds[d].ID != living[(i-d-1+size)%size].Peer.ID || succs[d].ID != living[(i+d+1)%size].Peer.ID {
				return fmt.Errorf("peer %d: wrong leaf peer at distance %d", n.Index, d+1)
			}
		}
	}
	return nil
}

// Coverage is the fraction of keys by the way they are served.
type Coverage struct {
	// Owned is the fraction served by its correct owner.
	Owned float64
	// Wrong is the fraction served by a live peer that is not the correct owner, besides the owner or
	// instead of it.
	Wrong float64
}

// Coverage compares the served arcs with the correct ones. The rest, 1 - Owned, is unserved or
// served by a wrong peer.
func (s *Sim) Coverage() (c Coverage) {
	for i, n := range s.sorted {
		if !n.Started() {
			continue
		}
		serving, serves := n.Arc()
		if !serves {
			continue
		}
		want := s.arc(i)
		// Both arcs end at the peer's own position, so the shorter is their intersection.
		owned := min(serving.Fraction(), want.Fraction())
		c.Owned += owned
		c.Wrong += serving.Fraction() - owned
	}
	return c
}

// Arc returns the arc that a peer serves now; a paused one serves none.
func (s *Sim) Arc(n *Node) (ring.Arc, bool) {
	if !n.Started() || n.Paused() {
		return ring.Arc{}, false
	}
	if n.Notice(s.Now()) {
		n.after()
	}
	return n.Ring.Arc()
}
