// Package dhtsim simulates rings in memory: [Sim] runs the state machines of up to ten thousand
// peers in virtual time, in one goroutine, for tests of the ring and for simulated crawls
// (node/lab), with seeded latency, loss and failures, and routing tables like kad-dht's.
//
// The layers of a Sim:
//
//   - [Clock]: events in the order of their time. An hour in which nothing happens costs nothing.
//   - [Internet]: round-trip times between hosts.
//   - [Network]: calls between hosts that can be dead, paused, cut off, behind a NAT; bytes are
//     counted by purpose.
//   - [Node] and [Sim]: dht.Ring driven over it, and the correct state to compare with.
package dhtsim

import (
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/dhtsim/clock"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// World is the environment of a Sim's peers. The zero World has 20 to 60 ms of round-trip time, no
// loss and no NAT.
type World struct {
	Seed uint64 // of all random draws
	// Internet gives the round-trip times; nil is Pairs of the seed.
	Internet Internet
	// First is the number of the first peer's host; lower numbers are other hosts.
	First int
	// Loss is the fraction of lost messages, in each direction.
	Loss float64
	// Silent makes Kill act like a power loss: connections neither drop nor are refused.
	Silent bool
	// NAT reports whether a peer cannot be dialed, see [Network]. Such peers start as workers. nil:
	// none.
	NAT func(i int) bool
	// Config is the configuration of all peers, except seed, memory and role.
	Config dht.Config
	// Admission returns the charter and certificates of a starting peer; nil: an open ring. Only with
	// it do the peers have keys.
	Admission func(n *Node) *admission.Book
	// Ring returns the kad-dht network that fills a peer's table; nil means one for all.
	Ring func(i int) int
}

// Sim is a set of peers on one network, and their correct state. It is not safe for concurrent use.
type Sim struct {
	*Network
	// Config applies to each peer from its next start on, except seed, memory and role.
	Config dht.Config
	// Rand is the source of the peers' seeds and table refreshes; callers may use it too.
	Rand *rand.Rand
	// Nodes are all peers ever created, in order of creation.
	Nodes []*Node
	// OnEvent, if set, is called for each event of each peer.
	OnEvent func(n *Node, e dht.Event)
	// OnStart, if set, is called for a starting peer, before any event.
	OnStart func(n *Node)

	world  World
	mixed  bool    // some live peers are missing in routing tables: there are workers, or several networks
	drawn  uint64  // identities
	sorted []*Node // live peers, by position
	byID   map[peer.ID]*Node
	keys   map[peer.ID]crypto.PrivKey
}

// NewSim returns an empty world.
func NewSim(w World) *Sim {
	if w.Internet == nil {
		w.Internet = Pairs(w.Seed)
	}
	net := NewNetwork(new(Clock), w.Internet, w.Seed)
	net.Loss, net.NAT = w.Loss, w.NAT
	return &Sim{
		Network: net, Config: w.Config, Rand: rand.New(rand.NewPCG(w.Seed, 0x72696e67)),
		world: w, mixed: w.NAT != nil || w.Ring != nil || w.Admission != nil, byID: make(map[peer.ID]*Node), keys: make(map[peer.ID]crypto.PrivKey),
	}
}

// candidates is the number of positions of which a new peer takes the best (design, section 4).
const candidates = 8

// draw creates a peer at the one of eight positions that splits its owner's arc best.
func (s *Sim) draw() *Node {
	drawn := make([]dht.Peer, candidates)
	keys := make([]ring.Key, candidates)
	arcs := make([]ring.Arc, candidates)
	for i := range drawn {
		drawn[i] = s.identity()
		keys[i] = drawn[i].Key()
		if len(s.sorted) > 0 {
			arcs[i] = s.arc(s.truth(keys[i]))
		}
	}
	best := 0
	if len(s.sorted) > 0 {
		best = ring.BestPosition(keys, arcs)
	}
	return s.node(drawn[best])
}

// identity returns the next unused identity.
func (s *Sim) identity() dht.Peer {
	s.drawn++
	p := identity(s.world.Seed, s.drawn-1)
	if s.world.Admission == nil {
		return p
	}
	id, _ := peer.IDFromPrivateKey(keyOf(p)) // an Ed25519 key has one
	s.keys[id] = keyOf(p)
	return dht.NewPeer(id, p.Addrs)
}

// keyOf returns a key that a drawn identity determines.
func keyOf(p dht.Peer) crypto.PrivKey {
	seed := []byte(p.ID)
	key, _ := crypto.UnmarshalEd25519PrivateKey(ed25519.NewKeyFromSeed(seed[len(seed)-ed25519.SeedSize:])) // of the right size
	return key
}

// Key returns the key of a peer in a world with Admission.
func (s *Sim) Key(n *Node) crypto.PrivKey { return s.keys[n.Peer.ID] }

func (s *Sim) node(p dht.Peer) *Node {
	n := &Node{Host: s.NewHost(s.world.First + len(s.Nodes)), Peer: p, sim: s, key: p.Key()}
	s.Nodes = append(s.Nodes, n)
	s.byID[p.ID] = n
	return n
}

// Found creates a ring of n peers as after a restart of the whole ring: each starts with the memory
// of its neighbors. It is consistent some 20 s later.
func (s *Sim) Found(n int) {
	for range n {
		s.insert(s.draw())
	}
	all := slices.Clone(s.sorted)
	for i, p := range all {
		m := &dht.Memory{Incarnation: 1, Alone: n == 1, Predecessor: all[(i+n-1)%n].key, HasPredecessor: true}
		for d := 1; d <= ring.DefaultR && d < n; d++ {
			for _, q := range []*Node{all[(i+d)%n], all[(i+n-d)%n]} {
				if !slices.ContainsFunc(m.Peers, func(other dht.Peer) bool { return other.ID == q.Peer.ID }) {
					m.Peers = append(m.Peers, q.Peer)
				}
			}
		}
		s.After(time.Duration(s.Rand.Int64N(int64(time.Second))), func() {
			p.start(m, false)
			p.table.fill(s.sorted, s.Rand)
		})
	}
}

// Join starts a peer at a good position, which joins through three random live peers, or founds a
// ring if there are none.
func (s *Sim) Join() *Node {
	n := s.draw()
	var entries []*Node
	for range min(3, len(s.sorted)) {
		entries = append(entries, s.sorted[s.Rand.IntN(len(s.sorted))])
	}
	s.add(n, entries)
	return n
}

// Add starts a peer at a random position, which joins through entries, or founds a ring if there
// are none.
func (s *Sim) Add(entries ...*Node) *Node {
	n := s.node(s.identity())
	s.add(n, entries)
	return n
}

// Liar starts a Byzantine peer at a random position: it answers all requests by answer, and is in
// the routing tables of the peers that Meet it.
func (s *Sim) Liar(answer func(self dht.Peer, req *wire.Message) *wire.Message) *Node {
	n := s.node(s.identity())
	n.lie = func(req *wire.Message) *wire.Message { return answer(n.Peer, req) }
	n.Host.Start()
	n.table = NewTable(n.key)
	return n
}

func (s *Sim) add(n *Node, entries []*Node) {
	s.insert(n)
	n.start(nil, len(entries) == 0)
	if len(entries) > 0 {
		peers := make([]dht.Peer, len(entries))
		for i, entry := range entries {
			peers[i] = entry.Peer
		}
		n.Ring.Join(s.Now(), peers...)
		n.after()
	}
}

// Kill ends a peer like kill -9, or silently if World.Silent is set.
func (s *Sim) Kill(n *Node) { s.KillAs(n, s.world.Silent) }

// KillAs ends a peer. Unless silent, its neighbors see their connections drop.
func (s *Sim) KillAs(n *Node, silent bool) {
	i := s.end(n, silent)
	if silent {
		return
	}
	size := len(s.sorted)
	told := make(map[*Node]bool)
	// Leaf sets hold R peers a side; those that have not yet learned of the latest failures reach a
	// little farther.
	for d := 1; d <= 3*ring.DefaultR && d <= size; d++ {
		for _, q := range []*Node{s.sorted[(i+d-1)%size], s.sorted[(i-d+size)%size]} {
			if told[q] || !q.Started() || !holds(q, n.Peer.ID) {
				continue
			}
			told[q] = true
			q.Host.After(s.Internet.RTT(n.Index, q.Index)/2, func() {
				q.Disconnected(s.Now(), n.Peer.ID)
				q.after()
			})
		}
	}
}

// end removes a peer, and returns its index among the live peers.
func (s *Sim) end(n *Node, silent bool) int {
	i := at(s.sorted, n.key)
	s.sorted = slices.Delete(s.sorted, i, i+1)
	n.Stop(silent)
	if n.Started() {
		n.Memory = n.Snapshot()
	}
	n.Ring, n.table = nil, nil
	return i
}

// Leave makes a peer send goodbyes and stop a second later.
func (s *Sim) Leave(n *Node) {
	n.farewell(n.Ring.Leave(s.Now()))
	n.Host.After(time.Second, func() { s.end(n, s.world.Silent) })
}

// StepDown makes a ring peer send goodbyes and continue as a worker.
func (s *Sim) StepDown(n *Node) { n.farewell(n.Ring.StepDown(s.Now())) }

// Restart restarts a stopped peer with its Memory, a Snapshot, or nil for none.
func (s *Sim) Restart(n *Node, memory *dht.Memory) {
	s.insert(n)
	n.start(memory, false)
}

// Admit passes charter and certificates of a peer to an input.
func (s *Sim) Admit(n *Node, input func(b *admission.Book)) {
	n.Admission(s.Now(), input)
	n.after()
}

// Observe reports to a peer whether others can dial it.
func (s *Sim) Observe(n *Node, seen workers.Reachability) {
	n.Ring.Observe(s.Now(), seen)
	n.after()
}

// holds reports whether a peer is in the leaf set of another.
func holds(q *Node, id peer.ID) bool {
	preds, succs := q.Leaves()
	is := func(p dht.Peer) bool { return p.ID == id }
	return slices.ContainsFunc(preds, is) || slices.ContainsFunc(succs, is)
}

func (s *Sim) insert(n *Node) { s.sorted = slices.Insert(s.sorted, at(s.sorted, n.key), n) }

// RandomKey draws a key.
func (s *Sim) RandomKey() ring.Key {
	return ring.KeyOf(binary.BigEndian.AppendUint64(nil, s.Rand.Uint64()))
}

// Epoch is the start time of every simulation.
var Epoch = clock.Epoch

// Clock is the virtual clock of a simulation.
type Clock = clock.Clock

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
