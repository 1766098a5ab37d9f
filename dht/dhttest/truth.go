package dhttest

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// Living are the living peers by position. The slice is the Sim's.
func (s *Sim) Living() []*Node { return s.sorted }

// Size is the number of living peers.
func (s *Sim) Size() int { return len(s.sorted) }

// Members are the living ring peers by position: those that are no workers. The slice may be the
// Sim's.
func (s *Sim) Members() []*Node {
	if !s.mixed {
		return s.sorted
	}
	return slices.DeleteFunc(slices.Clone(s.sorted), func(n *Node) bool { return !n.Started() || n.State() == dht.Worker })
}

// tabled are the living peers that stand in the routing tables of a peer's kad-dht network, by
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

// Truth is the living ring peer that owns a key, by looking at all of them; there must be one.
func (s *Sim) Truth(key ring.Key) *Node {
	members := s.Members()
	return members[at(members, key)%len(members)]
}

// TrueArc is what a living ring peer owns in truth.
func (s *Sim) TrueArc(n *Node) ring.Arc {
	members := s.Members()
	return arc(members, at(members, n.key))
}

// truth is the index among the living of the peer that owns a key.
func (s *Sim) truth(key ring.Key) int { return at(s.sorted, key) % len(s.sorted) }

func (s *Sim) arc(i int) ring.Arc { return arc(s.sorted, i) }

// arc is what the i-th of peers owns.
func arc(sorted []*Node, i int) ring.Arc {
	return ring.Arc{Start: sorted[(i+len(sorted)-1)%len(sorted)].key, End: sorted[i].key}
}

// Settled says what is not yet as it should be: each living ring peer serves exactly its arc, and
// has the right leaf set. It is nil when all is.
func (s *Sim) Settled() error {
	living := s.Members()
	size := len(living)
	for i, n := range living {
		if !n.Started() {
			return fmt.Errorf("peer %d is not started", n.Index)
		}
		serving, serves := s.Arc(n)
		if want := arc(living, i); !serves || serving != want {
			return fmt.Errorf("peer %d (%s) serves %v %s, want %s", n.Index, n.State(), serves, serving, want)
		}
		preds, succs := n.Leaves()
		side := min(size-1, max(len(preds), len(succs), ring.DefaultR))
		if len(preds) != side || len(succs) != side {
			return fmt.Errorf("peer %d has %d predecessors and %d successors, want %d", n.Index, len(preds), len(succs), side)
		}
		for d := range side {
			if preds[d].ID != living[(i-d-1+size)%size].Peer.ID || succs[d].ID != living[(i+d+1)%size].Peer.ID {
				return fmt.Errorf("peer %d: wrong leaf peer at distance %d", n.Index, d+1)
			}
		}
	}
	return nil
}

// Coverage is how the circle is served at a moment, in shares of its keys.
type Coverage struct {
	// Owned keys are served by the peer that owns them in truth.
	Owned float64
	// Wrong keys are served by a living peer that does not own them: beside their owner, or in its
	// place.
	Wrong float64
}

// Coverage compares what the living peers serve with the truth. The rest of the circle, 1 - Owned,
// is served by nobody or by the wrong one.
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

// Arc is what a peer answers that it serves at this moment; one that is paused answers nothing.
func (s *Sim) Arc(n *Node) (ring.Arc, bool) {
	if !n.Started() || n.Paused() {
		return ring.Arc{}, false
	}
	if n.Notice(s.Now()) {
		n.after()
	}
	return n.Ring.Arc()
}

// Overlaps counts the pairs of peers that serve a common key, but for those that stand apart; a nil
// apart counts all.
func (s *Sim) Overlaps(apart func(i, j int) bool) int {
	type served struct {
		arc   ring.Arc
		index int
	}
	var arcs []served
	for _, n := range s.Nodes {
		if arc, serves := s.Arc(n); serves {
			arcs = append(arcs, served{arc, n.Index})
		}
	}
	slices.SortFunc(arcs, func(a, b served) int { return a.arc.End.Compare(b.arc.End) })
	pairs := 0
	for i, it := range arcs {
		// Arcs that end inside this one, going back from its end, overlap it.
		for d := 1; d < len(arcs); d++ {
			before := arcs[(i-d+len(arcs))%len(arcs)]
			if before.arc.End == it.arc.Start || !it.arc.Contains(before.arc.End) {
				break
			}
			if apart == nil || !apart(it.index, before.index) {
				pairs++
			}
		}
	}
	return pairs
}

// Served is the share of the circle that the living peers serve, each key counted as often as it is
// served.
func (s *Sim) Served() float64 {
	share := 0.0
	for _, n := range s.sorted {
		if arc, serves := s.Arc(n); serves {
			share += arc.Fraction()
		}
	}
	return share
}
