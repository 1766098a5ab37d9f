package dhttest

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// Sorted returns the living ring peers of one kad-dht network in the order of their positions.
func (s *Sim) Sorted(network int) []dht.Peer {
	if s.sorted[network] == nil {
		var peers []dht.Peer
		for _, n := range s.Nodes {
			if n.Alive && n.Self().Role == dht.RoleMember && s.ringOf(n.Index) == network {
				peers = append(peers, n.peer)
			}
		}
		slices.SortFunc(peers, func(a, b dht.Peer) int { return a.Key().Compare(b.Key()) })
		if s.sorted == nil {
			s.sorted = map[int][]dht.Peer{}
		}
		s.sorted[network] = peers
	}
	return s.sorted[network]
}

// Members returns the living ring peers: those that are no workers.
func (s *Sim) Members() []*Node {
	return slices.DeleteFunc(s.Living(), func(n *Node) bool { return n.State() == dht.Worker })
}

// Living returns the living peers.
func (s *Sim) Living() []*Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n *Node) bool { return !n.Alive })
}

// Truth returns the living ring peer that owns key, by looking at all of them.
func (s *Sim) Truth(key ring.Key) *Node {
	return slices.MinFunc(s.Members(), func(a, b *Node) int {
		return a.peer.Key().Sub(key).Compare(b.peer.Key().Sub(key))
	})
}

// Settled says what is not yet as it should be: each living ring peer serves exactly its arc, and has the right leaf set. It is nil when all is.
func (s *Sim) Settled() error {
	living := s.Members()
	slices.SortFunc(living, func(a, b *Node) int { return a.peer.Key().Compare(b.peer.Key()) })
	n := len(living)
	for i, node := range living {
		arc, serves := s.Arc(node)
		if want := (ring.Arc{Start: living[(i-1+n)%n].peer.Key(), End: node.peer.Key()}); !serves || arc != want {
			return fmt.Errorf("peer %d (%s) serves %v %s, want %s", node.Index, node.State(), serves, arc, want)
		}
		preds, succs := node.Leaves()
		side := min(n-1, max(len(preds), len(succs), ring.DefaultR))
		if len(preds) != side || len(succs) != side {
			return fmt.Errorf("peer %d has %d predecessors and %d successors, want %d", node.Index, len(preds), len(succs), side)
		}
		for d := range side {
			if preds[d].ID != living[(i-d-1+n)%n].peer.ID || succs[d].ID != living[(i+d+1)%n].peer.ID {
				return fmt.Errorf("peer %d: wrong leaf peer at distance %d", node.Index, d+1)
			}
		}
	}
	return nil
}

// Arc is what a peer answers that it serves at this moment; a frozen one answers nothing.
func (s *Sim) Arc(n *Node) (ring.Arc, bool) {
	if !n.Alive || s.Frozen(n) {
		return ring.Arc{}, false
	}
	if n.Notice(s.Now) {
		s.after(n)
	}
	return n.Arc()
}

// Overlaps counts the pairs of peers that serve a common key, but for those that stand apart; a nil apart counts all.
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

// Served is the share of the circle that the living peers serve, each key counted as often as it is served.
func (s *Sim) Served() float64 {
	share := 0.0
	for _, n := range s.Living() {
		if arc, serves := s.Arc(n); serves {
			share += arc.Fraction()
		}
	}
	return share
}
