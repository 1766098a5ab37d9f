package dht

import (
	"bytes"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// exchange builds this peer's announcements and requests those of its neighbors.
type exchange struct {
	*step
	neighborhood *neighborhood
	serving      *serving
}

// ask exchanges lists with a leaf peer, one call at a time.
func (x *exchange) ask(now time.Time, n *neighbor) {
	if n == nil || n.asking {
		return
	}
	n.asking, n.asked = true, now
	x.call(n.peer, stabilizeRequest(x.neighboursTo(now, n.peer.Key())), inFlight{kind: callStabilize})
}

// neighboursTo returns this peer's announcement to another, without the lists that it already has.
// In a quiet ring they would be nine tenths of all traffic.
func (x *exchange) neighboursTo(now time.Time, to ring.Key) *wire.Neighbours {
	said := x.neighbours(now)
	if n := x.neighborhood.peers[to]; n != nil {
		said.Known = n.lists.GetLists()
		if n.holds == said.Lists {
			said.Predecessors, said.Successors = nil, nil
		}
	}
	return said
}

// neighbours returns this peer's complete announcement.
func (x *exchange) neighbours(now time.Time) *wire.Neighbours {
	told := x.neighborhood.lists()
	said := &wire.Neighbours{
		Self: told.Self, State: x.serving.state.wire(), Predecessors: told.Predecessors, Successors: told.Successors, Lists: told.Lists,
		Cleared: x.serving.state == Joining && x.serving.cleared(now),
	}
	if x.serving.serves {
		said.ServedStart = bytes.Clone(x.serving.served.Start[:]) // the message outlives the arc
	}
	if left := x.serving.fence(now).Sub(now); left > 0 {
		said.FenceMs = uint32(min(left.Milliseconds()+1, wire.MaxFenceMillis))
	}
	return said
}

// missing probes silent leaf peers that a live neighbor should list and does not: it may have
// detected their death. Such news spreads at the speed of the exchange, not of our own rounds.
func (x *exchange) missing(now time.Time, speaker ring.Key, said *wire.Neighbours) {
	named := map[ring.Key]bool{speaker: true}
	first, last := speaker, speaker
	for _, p := range said.GetPredecessors() {
		first = ring.PeerKey(p.GetId())
		named[first] = true
	}
	for _, p := range said.GetSuccessors() {
		last = ring.PeerKey(p.GetId())
		named[last] = true
	}
	for _, key := range x.neighborhood.leaves.Members() {
		if !named[key] && (ring.Between(first, key, speaker) || ring.Between(speaker, key, last)) {
			if n := x.neighborhood.peers[key]; now.Sub(n.lastHeard) >= 2*x.cfg.Interval && now.Sub(n.asked) >= x.cfg.Interval {
				x.ask(now, n)
			}
		}
	}
}
