// Package dhttest holds networks in memory. [Sim] drives the state machines of up to ten thousand
// peers in virtual time, in one goroutine: tests of the ring use it, and the laboratory builds
// whole crawls on it. [Mesh] carries the calls of whole DHTs, for use inside a synctest bubble.
// Both have latency, loss and death from a seed, and routing tables like kad-dht's.
//
// The layers of a Sim:
//
//   - [Clock]: events in the order of their time. An hour in which nothing happens costs nothing.
//   - [Internet]: how far hosts are from each other.
//   - [Network]: calls between hosts that can be dead, paused, cut off, behind a NAT; bytes are
//     counted by purpose.
//   - [Node] and [Sim]: dht.Ring driven over it, and the truth to hold it against.
package dhttest

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/dht/workers"
)

// World is what the peers of a Sim live in. The zero World has 20 to 60 ms of round trip, no loss
// and no NAT.
type World struct {
	Seed uint64 // of all that is drawn
	// Internet says how far hosts are from each other; nil is Pairs of the seed.
	Internet Internet
	// First is the number of the first peer's host: those below it stand for something else on the
	// internet.
	First int
	// Loss is the share of messages that vanish, each way.
	Loss float64
	// Silent makes Kill end peers as a loss of power does: no connection drops, and nobody is there
	// to refuse one.
	Silent bool
	// NAT says which peers cannot be dialled, see [Network]. They start as workers. nil: none.
	NAT func(i int) bool
	// Config is every peer's, but for its seed, memory and role.
	Config dht.Config
	// Ring says which kad-dht network a peer's table is filled from; nil puts all in one.
	Ring func(i int) int
}

// Sim is many peers on one network, and the truth about them. It is not safe for concurrent use.
type Sim struct {
	*Network
	// Config is every peer's from its next start on, but for its seed, memory and role.
	Config dht.Config
	// Rand is what the peers' seeds, the refreshes of their tables and whatever its user likes are
	// drawn from.
	Rand *rand.Rand
	// Nodes are all peers that ever were, in the order of their birth.
	Nodes []*Node
	// OnEvent, when set, sees each event of each peer.
	OnEvent func(n *Node, e dht.Event)
	// OnStart, when set, is told of a peer that begins to live, before anything happens to it.
	OnStart func(n *Node)

	world  World
	mixed  bool    // not every living peer stands in every routing table: there are workers, or several networks
	drawn  uint64  // identities
	sorted []*Node // the living, by position
	byID   map[peer.ID]*Node
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
		world: w, mixed: w.NAT != nil || w.Ring != nil, byID: make(map[peer.ID]*Node),
	}
}

// candidates are the positions of which a new peer takes the best (design, section 4: balance of
// arcs).
const candidates = 8

// draw makes a new peer, at the one of eight positions that splits the arc of its owner best.
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

// identity is the next that nobody had.
func (s *Sim) identity() dht.Peer {
	s.drawn++
	return identity(s.world.Seed, s.drawn-1)
}

func (s *Sim) node(p dht.Peer) *Node {
	n := &Node{Host: s.NewHost(s.world.First + len(s.Nodes)), Peer: p, sim: s, key: p.Key()}
	s.Nodes = append(s.Nodes, n)
	s.byID[p.ID] = n
	return n
}

// Found makes a ring of n peers that has run before: each begins with the memory of its old
// neighbours, as after a restart of the whole ring. It is settled some 20 s later.
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

// Join starts a new peer at a good position, which joins through three living ones drawn at random,
// or founds a ring when there are none.
func (s *Sim) Join() *Node {
	n := s.draw()
	var entries []*Node
	for range min(3, len(s.sorted)) {
		entries = append(entries, s.sorted[s.Rand.IntN(len(s.sorted))])
	}
	s.add(n, entries)
	return n
}

// Add starts a new peer at whatever position, which joins through entries, or founds a ring when
// there are none.
func (s *Sim) Add(entries ...*Node) *Node {
	n := s.node(s.identity())
	s.add(n, entries)
	return n
}

// Liar starts who is no peer, at whatever position: it answers all requests in its own way, and
// stands in the routing tables of those that Meet it.
func (s *Sim) Liar(answer func(self dht.Peer, req *wire.Message) *wire.Message) *Node {
	n := s.node(s.identity())
	n.lie = func(req *wire.Message) *wire.Message { return answer(n.Peer, req) }
	n.Host.Start()
	n.table = newTable(n.key)
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

// Kill ends a peer as kill -9 does, or silently where the world says so.
func (s *Sim) Kill(n *Node) { s.KillAs(n, s.world.Silent) }

// KillAs ends a peer. Unless it goes silently, the connections to its neighbours drop, and they
// know.
func (s *Sim) KillAs(n *Node, silent bool) {
	i := s.end(n, silent)
	if silent {
		return
	}
	size := len(s.sorted)
	told := make(map[*Node]bool)
	// Leaf sets reach over the config's R peers; those of peers that have not yet heard of the
	// latest deaths a little farther.
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

// end takes a peer out of the world, and returns the place among the living that was its.
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

// Leave lets a peer say goodbye, and go a second later.
func (s *Sim) Leave(n *Node) {
	n.farewell(n.Ring.Leave(s.Now()))
	n.Host.After(time.Second, func() { s.end(n, s.world.Silent) })
}

// StepDown lets a ring peer say goodbye and go on as a worker.
func (s *Sim) StepDown(n *Node) { n.farewell(n.Ring.StepDown(s.Now())) }

// Restart starts a dead peer again with what it remembers of the ring, as its Memory is or as a
// Snapshot was; nil when it kept nothing.
func (s *Sim) Restart(n *Node, memory *dht.Memory) {
	s.insert(n)
	n.start(memory, false)
}

// Observe tells a peer whether others can dial it.
func (s *Sim) Observe(n *Node, seen workers.Reachability) {
	n.Ring.Observe(s.Now(), seen)
	n.after()
}

// Unite lets the routing tables of all peers be filled from one network.
func (s *Sim) Unite() { s.world.Ring = nil }

// Lookup searches the owner of key from n, and lets time pass until it is found.
func (s *Sim) Lookup(n *Node, key ring.Key) (found dht.Lookup, err error) {
	done := false
	n.Lookup(key, func(f dht.Lookup, e error) { found, err, done = f, e, true })
	if !done && !s.RunUntil(time.Minute, func() bool { return done }) {
		return found, ErrTimeout
	}
	return found, err
}

// holds says whether a peer stands in the leaf set of another.
func holds(q *Node, id peer.ID) bool {
	preds, succs := q.Leaves()
	is := func(p dht.Peer) bool { return p.ID == id }
	return slices.ContainsFunc(preds, is) || slices.ContainsFunc(succs, is)
}

func (s *Sim) insert(n *Node) { s.sorted = slices.Insert(s.sorted, at(s.sorted, n.key), n) }

func (s *Sim) happened(n *Node, e dht.Event) {
	if changed, ok := e.(dht.StateChanged); ok && changed.New == dht.Worker {
		s.mixed = true
	}
	if s.OnEvent != nil {
		s.OnEvent(n, e)
	}
}

// RandomKey draws a key.
func (s *Sim) RandomKey() ring.Key {
	return ring.KeyOf(binary.BigEndian.AppendUint64(nil, s.Rand.Uint64()))
}
