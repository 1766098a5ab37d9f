package dhttest

import (
	"fmt"
	"slices"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// Sorted returns the living peers of one kad-dht network in the order of their positions.
func (s *Sim) Sorted(network int) []dht.Peer {
	if s.sorted[network] == nil {
		var peers []dht.Peer
		for _, n := range s.Nodes {
			if n.Alive && s.ringOf(n.Index) == network {
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

// Living returns the living peers.
func (s *Sim) Living() []*Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), func(n *Node) bool { return !n.Alive })
}

// Truth returns the living peer that owns key, by looking at all of them.
func (s *Sim) Truth(key ring.Key) *Node {
	return slices.MinFunc(s.Living(), func(a, b *Node) int {
		return a.peer.Key().Sub(key).Compare(b.peer.Key().Sub(key))
	})
}

// Settled says what is not yet as it should be: each living peer serves exactly its arc, and has the right leaf set. It is nil when all is.
func (s *Sim) Settled() error {
	living := s.Living()
	slices.SortFunc(living, func(a, b *Node) int { return a.peer.Key().Compare(b.peer.Key()) })
	n := len(living)
	for i, node := range living {
		arc, serves := node.Arc()
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

// Overlaps counts the pairs of living peers, not frozen, that serve a common key.
func (s *Sim) Overlaps() int {
	var arcs []ring.Arc
	for _, n := range s.Living() {
		if arc, serves := n.Arc(); serves && !n.thaw.After(s.Now) {
			arcs = append(arcs, arc)
		}
	}
	slices.SortFunc(arcs, func(a, b ring.Arc) int { return a.End.Compare(b.End) })
	pairs := 0
	for i, arc := range arcs {
		// Arcs that end inside this one, going back from its end, overlap it.
		for d := 1; d < len(arcs); d++ {
			before := arcs[(i-d+len(arcs))%len(arcs)]
			if before.End == arc.Start || !arc.Contains(before.End) {
				break
			}
			pairs++
		}
	}
	return pairs
}

// Served is the share of the circle that the living peers serve, each key counted as often as it is served.
func (s *Sim) Served() float64 {
	share := 0.0
	for _, n := range s.Living() {
		if arc, serves := n.Arc(); serves {
			share += arc.Fraction()
		}
	}
	return share
}
