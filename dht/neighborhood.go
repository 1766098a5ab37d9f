package dht

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

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
	served  []servedArc            // arcs that neighbors served, oldest first
}

const (
	// servedFor is how long an arc counts as served after its last announcement, maxServed the number
	// of these arcs.
	servedFor = time.Hour
	maxServed = 256
)

// servedArc is an arc that a neighbor announced to serve.
type servedArc struct {
	id   peer.ID
	arc  ring.Arc
	last time.Time // of these announcements
}

// witness records the arc that a neighbor serves, as far as no other known peer lies in it, and not
// this one if it serves itself: a false announcement covers no keys of others.
func (h *neighborhood) witness(now time.Time, p Peer, arc ring.Arc, serves bool) {
	clip := func(key ring.Key) {
		if key != arc.End && arc.Contains(key) {
			arc.Start = key
		}
	}
	for key := range h.peers {
		clip(key)
	}
	if serves {
		clip(h.self.Key())
	}
	same := func(s servedArc) bool { return s.id == p.ID && s.arc == arc }
	if n := len(h.served); n == 0 || !same(h.served[n-1]) {
		h.served = append(slices.DeleteFunc(h.served, same), servedArc{id: p.ID, arc: arc})
		h.served = h.served[max(0, len(h.served)-maxServed):]
	}
	h.served[len(h.served)-1].last = now
}

// Served reports whether a neighbor was seen to serve a key, in the last hour.
func (h *neighborhood) Served(now time.Time, id peer.ID, key ring.Key) bool {
	return slices.ContainsFunc(h.served, func(s servedArc) bool {
		return s.id == id && s.arc.Contains(key) && now.Sub(s.last) < servedFor
	})
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
func (h *neighborhood) completed(key ring.Key, announced *wire.Neighbours) (*wire.Neighbours, bool) {
	if announced.GetLists() == 0 || len(announced.GetPredecessors())+len(announced.GetSuccessors()) > 0 {
		return announced, true
	}
	n := h.peers[key]
	if n == nil || n.lists.GetLists() != announced.GetLists() {
		return announced, announced.GetLists() == listsName(nil, nil)
	}
	return &wire.Neighbours{
		Self: announced.GetSelf(), State: announced.GetState(), Predecessors: n.lists.GetPredecessors(), Successors: n.lists.GetSuccessors(),
		ServedStart: announced.GetServedStart(), FenceMs: announced.GetFenceMs(), Cleared: announced.GetCleared(), Lists: announced.GetLists(), Known: announced.GetKnown(),
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

func wordOf(now time.Time, p Peer, announced *wire.Neighbours) *word {
	w := &word{cleared: announced.GetCleared(), fence: now.Add(time.Duration(announced.GetFenceMs()) * time.Millisecond), pred: p.Key()}
	if announced.GetState() == wire.State_STATE_SERVING {
		w.state = Serving
	}
	if start := announced.GetServedStart(); len(start) > 0 && w.state == Serving {
		w.serves, w.served = true, ring.Arc{Start: ring.Key(start), End: p.Key()}
	}
	if preds := announced.GetPredecessors(); len(preds) > 0 {
		w.pred = ring.PeerKey(preds[0].GetId())
	}
	return w
}

// memoryVersion is the version of the stored form of Memory.
const memoryVersion = 1

// maxMemoryBytes is the maximum input of ParseMemory.
const maxMemoryBytes = wire.MaxMessageBytes

// Memory is the ring state that a peer keeps between runs.
type Memory struct {
	// Incarnation is that of the run that stored it.
	Incarnation uint64
	// Alone reports that the peer served the whole circle, so it may again without asking others.
	Alone bool
	// Role is the last role.
	Role Role
	// Predecessor is the start of the arc served last; HasPredecessor is false if there was none.
	Predecessor    ring.Key
	HasPredecessor bool // an arc was ever served
	// Peers are the peers to contact first: the leaf set, nearest first, then former leaf peers.
	Peers []Peer
}

// ParseMemory decodes the result of Memory.Bytes.
func ParseMemory(data []byte) (*Memory, error) {
	if len(data) > maxMemoryBytes {
		return nil, fmt.Errorf("ring memory: %d bytes: %w", len(data), wire.ErrTooLarge)
	}
	var m wire.Memory
	if err := proto.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("ring memory: %w", err)
	}
	if m.GetVersion() != memoryVersion {
		return nil, fmt.Errorf("ring memory: version %d: %w", m.GetVersion(), wire.ErrVersion)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("ring memory: %w", err)
	}
	memory := &Memory{Incarnation: m.GetIncarnation(), Alone: m.GetAlone(), Role: member.RoleOf(m.GetRole()), Peers: member.List(m.GetPeers())}
	if start := m.GetPredecessor(); len(start) > 0 {
		memory.Predecessor, memory.HasPredecessor = ring.Key(start), true
	}
	return memory, nil
}

// Bytes returns the stored form.
func (m *Memory) Bytes() ([]byte, error) {
	stored := &wire.Memory{Version: memoryVersion, Incarnation: m.Incarnation, Alone: m.Alone, Role: m.Role.Wire(), Peers: member.Wire(m.Peers)}
	if m.HasPredecessor {
		stored.Predecessor = m.Predecessor[:]
	}
	data, err := proto.Marshal(stored)
	if err == nil && len(data) > maxMemoryBytes {
		err = errors.New("too many peers")
	}
	if err != nil {
		return nil, fmt.Errorf("ring memory: %w", err)
	}
	return data, nil
}

// maxTombstones is the maximum number of tombstones; the oldest is forgotten first.
const maxTombstones = 1024

// tombstones suppress gossip about dead peers; messages from the peer itself are always accepted.
type tombstones map[peer.ID]tombstone

type tombstone struct {
	until       time.Time
	incarnation uint64
	goodbye     bool // it sent a goodbye
}

// set records that p is dead, for a duration of rest; it replaces the oldest tombstone if the limit
// is reached.
func (t tombstones) set(now time.Time, p Peer, rest time.Duration) {
	if len(t) >= maxTombstones {
		byEnd := slices.SortedFunc(maps.Keys(t), func(a, b peer.ID) int { return t[a].until.Compare(t[b].until) })
		for _, id := range byEnd[:maxTombstones/4] {
			delete(t, id)
		}
	}
	t[p.ID] = tombstone{until: now.Add(rest), incarnation: p.Incarnation}
}

// goodbye records a peer that sent a goodbye.
func (t tombstones) goodbye(now time.Time, p Peer, rest time.Duration) {
	t.set(now, p, rest)
	g := t[p.ID]
	g.goodbye = true
	t[p.ID] = g
}

// has reports whether gossip about p is ignored. expire removes expired tombstones.
func (t tombstones) has(p Peer) bool {
	g, ok := t[p.ID]
	return ok && p.Incarnation <= g.incarnation
}

// drop handles a message of p. If it is the same incarnation that was taken for dead, a link failed
// and no peer died. The others may live too, so their tombstones are removed.
func (t tombstones) drop(p Peer) {
	g, ok := t[p.ID]
	if ok && !g.goodbye && g.incarnation == p.Incarnation {
		clear(t)
	}
	delete(t, p.ID)
}

func (t tombstones) expire(now time.Time) {
	maps.DeleteFunc(t, func(_ peer.ID, g tombstone) bool { return !now.Before(g.until) })
}

// maxResting is the maximum number of remembered departed peers.
const maxResting = 1024

// resting are peers that left recently. They are not accepted at once, because a peer that leaves
// and rejoins in a loop would load its neighbors.
type resting map[peer.ID]time.Time

// rest refuses a peer for d.
func (r resting) rest(now time.Time, id peer.ID, d time.Duration) {
	if len(r) >= maxResting {
		clear(r)
	}
	r[id] = now.Add(d)
}

// rests reports whether a peer is still refused.
func (r resting) rests(now time.Time, id peer.ID) bool {
	until, ok := r[id]
	if ok && !now.Before(until) {
		delete(r, id)
	}
	return ok && now.Before(until)
}
