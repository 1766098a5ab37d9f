package dht

import (
	"encoding/binary"
	"hash/fnv"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// neighborhood is the leaf set, and the state of each peer in it.
type neighborhood struct {
	*step
	pace *pace

	leaves  *ring.LeafSet
	peers   map[ring.Key]*neighbor // the peers in leaves
	version int                    // of the leaf set: grows with each change
	encoded *wire.Neighbours       // our lists in wire form; nil after a change
}

// neighbor is a peer of the leaf set.
type neighbor struct {
	peer      Peer
	proven    bool             // it has answered a call of ours
	last      *word            // its last announcement; nil before the first since we began to join
	lists     *wire.Neighbours // its latest lists, checked against version weighed of the leaf set
	weighed   int
	holds     uint64 // hash of our lists that it holds, as last announced
	lastHeard time.Time
	asked     time.Time
	asking    bool // a stabilize call is in flight
	failures  int  // since its last message
	// unanswered is the time of the second call that failed before it became suspect.
	unanswered time.Time
	retry      time.Time
	thirds     []peer.ID // peers asked about it since then
}

// word is the last announcement of a neighbor.
type word struct {
	state   State
	cleared bool
	serves  bool
	served  ring.Arc
	pred    ring.Key
	fence   time.Time
}

func newNeighborhood(s *step, p *pace) *neighborhood {
	return &neighborhood{step: s, pace: p, leaves: ring.NewLeafSet(s.self.Key(), s.cfg.R), peers: map[ring.Key]*neighbor{}}
}

// SetAddrs replaces the addresses that this peer advertises.
func (h *neighborhood) SetAddrs(addrs [][]byte) { h.self.Addrs, h.encoded = addrs, nil }

// setRole replaces the role that this peer advertises.
func (h *neighborhood) setRole(role Role) { h.self.Role, h.encoded = role, nil }

// Leaves returns the leaf peers, nearest first. In a small ring a peer is on both sides.
func (h *neighborhood) Leaves() (preds, succs []Peer) {
	return h.standing(h.leaves.Predecessors()), h.standing(h.leaves.Successors())
}

// members returns all leaf peers.
func (h *neighborhood) members() []Peer { return h.standing(h.leaves.Members()) }

func (h *neighborhood) standing(keys []ring.Key) []Peer {
	peers := make([]Peer, len(keys))
	for i, key := range keys {
		peers[i] = h.peers[key].peer
	}
	return peers
}

// Leaf is a peer of the leaf set and its known state.
type Leaf struct {
	// Peer is its identity.
	Peer Peer
	// Arc is the arc that it last announced, if Serves.
	Arc ring.Arc
	// Serves reports that it announced an arc.
	Serves bool
	// Suspect reports that it left a call unanswered and has been silent since.
	Suspect bool
}

// LeafSet returns the leaf peers, clockwise from this one.
func (h *neighborhood) LeafSet() []Leaf {
	var set []Leaf
	for _, key := range h.leaves.Members() {
		n := h.peers[key]
		l := Leaf{Peer: n.peer, Suspect: n.failures > 0}
		if n.last != nil {
			l.Arc, l.Serves = n.last.served, n.last.serves
		}
		set = append(set, l)
	}
	slices.SortFunc(set, func(a, b Leaf) int {
		return a.Peer.Key().Sub(h.self.Key()).Compare(b.Peer.Key().Sub(h.self.Key()))
	})
	return set
}

// byID returns a leaf peer by its ID; nil if it is none.
func (h *neighborhood) byID(id peer.ID) *neighbor { return h.peers[ring.PeerKey([]byte(id))] }

// Suspect reports whether a leaf peer has failed to answer since its last message.
func (h *neighborhood) Suspect(id peer.ID) bool {
	n := h.byID(id)
	return n != nil && n.failures > 0
}

// Leaf reports whether a peer is in the leaf set, and whether it has answered a call of ours: a
// peer enters by calling, which proves nothing.
func (h *neighborhood) Leaf(id peer.ID) (is, proven bool) {
	n := h.byID(id)
	return n != nil, n != nil && n.proven
}

// Relay returns the peer to ping for a requester that cannot reach target; false if target is
// unknown.
func (h *neighborhood) Relay(target peer.ID) (Peer, bool) {
	if n := h.byID(target); n != nil {
		return n.peer, true
	}
	return Peer{}, false
}

// insert adds a peer that sent a message to the leaf set, if it belongs there.
func (h *neighborhood) insert(now time.Time, p Peer) {
	if h.leaves.Insert(p.Key()) {
		h.peers[p.Key()] = &neighbor{peer: p}
		h.changed(now)
		h.emit(PeerUp{p})
	}
}

// moveUp lets leaf peers of one side fill free places of the other, once no nearer peer is known:
// in a small ring every peer is on both sides.
func (h *neighborhood) moveUp(now time.Time, peers []Peer) {
	moved := false
	for _, p := range peers {
		if key := p.Key(); h.leaves.Contains(key) && h.leaves.Insert(key) {
			moved = true
		}
	}
	if moved {
		h.changed(now)
	}
}

// clear empties the leaf set.
func (h *neighborhood) clear(now time.Time) {
	h.leaves = ring.NewLeafSet(h.self.Key(), h.cfg.R)
	h.changed(now)
}

// changed handles a change of the leaf set: it forgets removed peers and speeds up the rounds.
func (h *neighborhood) changed(now time.Time) {
	for key := range h.peers {
		if !h.leaves.Contains(key) {
			delete(h.peers, key)
		}
	}
	h.version++
	h.encoded = nil
	h.pace.changed(now, [2]ring.Key{h.leaves.Predecessor(), h.leaves.Successor()})
	h.emit(LeavesChanged{})
}

// silence forgets the announcements of the neighbors.
func (h *neighborhood) silence() {
	for _, n := range h.peers {
		n.last = nil
	}
}

// lists returns this peer and its lists in wire form, cached until one changes.
func (h *neighborhood) lists() *wire.Neighbours {
	if h.encoded == nil {
		preds, succs := h.Leaves()
		h.encoded = &wire.Neighbours{Self: h.self.Wire(), Predecessors: member.Wire(preds), Successors: member.Wire(succs)}
		h.encoded.Lists = listsName(h.encoded.Predecessors, h.encoded.Successors)
	}
	return h.encoded
}

// completed adds the lists that a peer omitted to its announcement; false if they are not the ones
// that we hold.
func (h *neighborhood) completed(key ring.Key, said *wire.Neighbours) (*wire.Neighbours, bool) {
	if said.GetLists() == 0 || len(said.GetPredecessors())+len(said.GetSuccessors()) > 0 {
		return said, true
	}
	n := h.peers[key]
	if n == nil || n.lists.GetLists() != said.GetLists() {
		return said, said.GetLists() == listsName(nil, nil)
	}
	return &wire.Neighbours{
		Self: said.GetSelf(), State: said.GetState(), Predecessors: n.lists.GetPredecessors(), Successors: n.lists.GetSuccessors(),
		ServedStart: said.GetServedStart(), FenceMs: said.GetFenceMs(), Cleared: said.GetCleared(), Lists: said.GetLists(), Known: said.GetKnown(),
	}, true
}

// listsName returns a hash of two lists.
func listsName(preds, succs []*wire.Peer) uint64 {
	h := fnv.New64a()
	number := func(v uint64) { h.Write(binary.BigEndian.AppendUint64(nil, v)) }
	text := func(b []byte) {
		number(uint64(len(b)))
		h.Write(b)
	}
	for _, list := range [][]*wire.Peer{preds, succs} {
		number(uint64(len(list)))
		for _, p := range list {
			text(p.GetId())
			number(uint64(len(p.GetAddrs())))
			for _, addr := range p.GetAddrs() {
				text(addr)
			}
			number(p.GetIncarnation())
			number(uint64(p.GetRole()))
		}
	}
	return max(h.Sum64(), 1) // 0 means none
}

func wordOf(now time.Time, p Peer, said *wire.Neighbours) *word {
	w := &word{cleared: said.GetCleared(), fence: now.Add(time.Duration(said.GetFenceMs()) * time.Millisecond), pred: p.Key()}
	if said.GetState() == wire.State_STATE_SERVING {
		w.state = Serving
	}
	if start := said.GetServedStart(); len(start) > 0 && w.state == Serving {
		w.serves, w.served = true, ring.Arc{Start: ring.Key(start), End: p.Key()}
	}
	if preds := said.GetPredecessors(); len(preds) > 0 {
		w.pred = ring.PeerKey(preds[0].GetId())
	}
	return w
}
