package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// Ring is many peers on one network, and the truth about them.
type Ring struct {
	*Network
	// OnEvent, when set, sees each event of each peer.
	OnEvent func(p *RingPeer, e dht.Event)
	// OnStart, when set, is told of a peer that begins to live, before anything happens to it.
	OnStart func(p *RingPeer)

	// firstIndex is the number of the first peer: those below it stand for something else on the internet.
	firstIndex int

	cfg    dht.Config
	seed   uint64
	rnd    *rand.Rand
	drawn  uint64 // identities
	peers  []*RingPeer
	sorted []*RingPeer // the living, by position
	byID   map[peer.ID]*RingPeer
}

// NewRing returns a ring without peers. The config is every peer's, but for its seed and memory.
func NewRing(net *Network, cfg dht.Config, seed uint64) *Ring {
	return &Ring{Network: net, cfg: cfg, seed: seed, rnd: rand.New(rand.NewPCG(seed, 0x72696e67)), byID: make(map[peer.ID]*RingPeer)}
}

// Size is the number of living peers.
func (r *Ring) Size() int { return len(r.sorted) }

// candidates are the positions of which a new peer takes the best (design, section 4: balance of arcs).
const candidates = 8

// draw makes a new peer, at the one of eight positions that splits the arc of its owner best.
func (r *Ring) draw() *RingPeer {
	drawn := make([]dht.Peer, candidates)
	keys := make([]ring.Key, candidates)
	arcs := make([]ring.Arc, candidates)
	for i := range drawn {
		drawn[i] = identity(r.seed, r.drawn)
		r.drawn++
		keys[i] = drawn[i].Key()
		if len(r.sorted) > 0 {
			arcs[i] = r.arc(r.truth(keys[i]))
		}
	}
	best := 0
	if len(r.sorted) > 0 {
		best = ring.BestPosition(keys, arcs)
	}
	p := &RingPeer{Host: r.NewHost(r.firstIndex + len(r.peers)), world: r, peer: drawn[best], key: keys[best]}
	r.peers = append(r.peers, p)
	r.byID[p.peer.ID] = p
	return p
}

// Found makes a ring of n peers that has run before: each begins with the memory of its old neighbours, as after a restart of the whole ring. It is
// settled some 20 s later.
func (r *Ring) Found(n int) {
	for range n {
		r.insert(r.draw())
	}
	all := slices.Clone(r.sorted)
	for i, p := range all {
		m := &dht.Memory{Incarnation: 1, Alone: n == 1, Predecessor: all[(i+n-1)%n].key, HasPredecessor: true}
		for d := 1; d <= ring.DefaultR && d < n; d++ {
			for _, q := range []*RingPeer{all[(i+d)%n], all[(i+n-d)%n]} {
				if !slices.ContainsFunc(m.Peers, func(other dht.Peer) bool { return other.ID == q.peer.ID }) {
					m.Peers = append(m.Peers, q.peer)
				}
			}
		}
		r.After(time.Duration(r.rnd.Int64N(int64(time.Second))), func() {
			p.start(m, false)
			p.table.fill(r.sorted, r.rnd)
		})
	}
}

// Join starts a new peer that joins through three living ones drawn at random, or founds a ring when there are none.
func (r *Ring) Join() *RingPeer {
	p := r.draw()
	var entries []dht.Peer
	for range min(3, len(r.sorted)) {
		entries = append(entries, r.sorted[r.rnd.IntN(len(r.sorted))].peer)
	}
	r.insert(p)
	p.start(nil, len(entries) == 0)
	if len(entries) > 0 {
		p.Ring.Join(r.Now(), entries...)
		p.after()
	}
	return p
}

// Kill ends a peer as kill -9 does. Unless it goes silently, the connections to its neighbours drop, and they know.
func (r *Ring) Kill(p *RingPeer, silent bool) {
	i := at(r.sorted, p.key)
	r.sorted = slices.Delete(r.sorted, i, i+1)
	p.Stop(silent)
	if p.started() {
		p.memory = p.Snapshot()
	}
	p.Ring, p.table = nil, nil
	if silent {
		return
	}
	n := len(r.sorted)
	told := make(map[*RingPeer]bool)
	// Leaf sets reach over r.cfg.R peers; those of peers that have not yet heard of the latest deaths a little farther.
	for d := 1; d <= 3*ring.DefaultR && d <= n; d++ {
		for _, q := range []*RingPeer{r.sorted[(i+d-1)%n], r.sorted[(i-d+n)%n]} {
			if told[q] || !q.started() || !holds(q, p.peer.ID) {
				continue
			}
			told[q] = true
			q.Host.After(r.Internet.RTT(p.Index, q.Index)/2, func() {
				q.Disconnected(r.Now(), p.peer.ID)
				q.after()
			})
		}
	}
}

// Restart starts a dead peer again with what it remembers of the ring.
func (r *Ring) Restart(p *RingPeer) {
	r.insert(p)
	p.start(p.memory, false)
}

// holds says whether a peer stands in the leaf set of another.
func holds(q *RingPeer, id peer.ID) bool {
	preds, succs := q.Leaves()
	is := func(p dht.Peer) bool { return p.ID == id }
	return slices.ContainsFunc(preds, is) || slices.ContainsFunc(succs, is)
}

func (r *Ring) insert(p *RingPeer) { r.sorted = slices.Insert(r.sorted, at(r.sorted, p.key), p) }

func (r *Ring) happened(p *RingPeer, e dht.Event) {
	if r.OnEvent != nil {
		r.OnEvent(p, e)
	}
}

// truth is the index among the living of the peer that owns a key.
func (r *Ring) truth(key ring.Key) int { return at(r.sorted, key) % len(r.sorted) }

// Truth is the living peer that owns a key, by looking at all of them; there must be one.
func (r *Ring) Truth(key ring.Key) *RingPeer { return r.sorted[r.truth(key)] }

// arc is what the i-th of the living owns in truth.
func (r *Ring) arc(i int) ring.Arc {
	return ring.Arc{Start: r.sorted[(i+len(r.sorted)-1)%len(r.sorted)].key, End: r.sorted[i].key}
}

// RandomKey draws a key.
func (r *Ring) RandomKey() ring.Key {
	return ring.KeyOf(binary.BigEndian.AppendUint64(nil, r.rnd.Uint64()))
}

// Settled says what is not yet as it should be: each living peer serves exactly its arc, and has the right leaf set. It is nil when all is.
func (r *Ring) Settled() error {
	n := len(r.sorted)
	for i, p := range r.sorted {
		if !p.started() {
			return fmt.Errorf("peer %d is not started", p.Index)
		}
		arc, serves := p.Arc()
		if want := r.arc(i); !serves || arc != want {
			return fmt.Errorf("peer %d (%s) serves %v %s, want %s", p.Index, p.State(), serves, arc, want)
		}
		preds, succs := p.Leaves()
		side := min(n-1, max(len(preds), len(succs), ring.DefaultR))
		if len(preds) != side || len(succs) != side {
			return fmt.Errorf("peer %d has %d predecessors and %d successors, want %d", p.Index, len(preds), len(succs), side)
		}
		for d := range side {
			if preds[d].ID != r.sorted[(i-d-1+n)%n].peer.ID || succs[d].ID != r.sorted[(i+d+1)%n].peer.ID {
				return fmt.Errorf("peer %d: wrong leaf peer at distance %d", p.Index, d+1)
			}
		}
	}
	return nil
}

func (p *RingPeer) started() bool { return p.Ring != nil }

// Coverage is how the circle is served at a moment, in shares of its keys.
type Coverage struct {
	// Owned keys are served by the peer that owns them in truth.
	Owned float64
	// Wrong keys are served by a living peer that does not own them: beside their owner, or in its place.
	Wrong float64
}

// Coverage compares what the living peers serve with the truth. The rest of the circle, 1 - Owned, is served by nobody or by the wrong one.
func (r *Ring) Coverage() (c Coverage) {
	for i, p := range r.sorted {
		if !p.started() {
			continue
		}
		arc, serves := p.Arc()
		if !serves {
			continue
		}
		want := r.arc(i)
		// Both arcs end at the peer's own position, so the shorter is their intersection.
		owned := min(arc.Fraction(), want.Fraction())
		c.Owned += owned
		c.Wrong += arc.Fraction() - owned
	}
	return c
}
