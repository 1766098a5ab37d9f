package dhtsim

import (
	"cmp"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Node is one peer with its dht.Ring, driven over the network.
type Node struct {
	*Host
	*dht.Ring

	Peer   dht.Peer    // its identity, also while it is down
	Memory *dht.Memory // its stored state when it was stopped

	sim    *Sim
	key    ring.Key
	table  *Table
	tickAt time.Time
	lie    func(req *wire.Message) *wire.Message // of a liar: its answers
}

// Identity returns the i-th test peer.
func Identity(i int) dht.Peer { return identity(0, uint64(i)) } // not negative

// identity returns a peer with an ID of realistic length and two addresses, derived from number.
func identity(seed, number uint64) dht.Peer {
	id := []byte{0x00, 0x24, 0x08, 0x01, 0x12, 0x20} // multihash and protobuf head of an Ed25519 key
	for word := range uint64(4) {
		id = binary.BigEndian.AppendUint64(id, mix(seed+mix(number)*4+word))
	}
	n := byte(number)
	tcp := []byte{4, 10, byte(number >> 16), byte(number >> 8), n, 6, 0x0f, 0xa1}                 // /ip4/10.x.x.x/tcp/4001
	quic := []byte{4, 10, byte(number >> 16), byte(number >> 8), n, 0x91, 2, 0x0f, 0xa1, 0xcd, 3} // /ip4/10.x.x.x/udp/4001/quic-v1
	return dht.NewPeer(peer.ID(id), [][]byte{tcp, quic})
}

// start begins a life of the peer.
func (n *Node) start(memory *dht.Memory, found bool) {
	s := n.sim
	cfg := s.Config
	cfg.Seed, cfg.Memory, cfg.Found = s.Rand.Uint64(), memory, cfg.Found || found
	if s.behindNAT(n.Index) {
		cfg.Role = dht.RoleWorker
	}
	if s.world.Admission != nil {
		cfg.Admission = s.world.Admission(n)
	}
	n.Host.Start()
	n.table = NewTable(n.key)
	n.Ring = dht.NewRing(cfg, n.Peer, n.table)
	if s.OnStart != nil {
		s.OnStart(n)
	}
	n.tickAt = time.Time{}
	n.Tick(s.Now())
	n.after()
	n.refreshLater(2 * time.Second)
}

// Started reports whether the peer runs.
func (n *Node) Started() bool { return n.Ring != nil }

// member reports whether the peer runs as a ring member.
func (n *Node) member() bool { return n.Started() && n.Self().Role == dht.RoleMember }

// Meet adds another peer to the routing table.
func (n *Node) Meet(other *Node) { n.table.Add(other.Peer) }

// refreshEvery is the refresh interval of a routing table.
const refreshEvery = 30 * time.Second

// refreshLater refreshes the routing table periodically, first after a delay. A peer without known
// peers skips it.
func (n *Node) refreshLater(delay time.Duration) {
	n.Host.After(delay, func() {
		s := n.sim
		n.table.drop(func(q dht.Peer) bool { return !s.byID[q.ID].member() })
		if len(n.table.known) > 0 {
			n.table.fill(s.tabled(n), s.Rand)
		}
		n.refreshLater(refreshEvery + time.Duration(s.Rand.Int64N(int64(refreshEvery)))/4)
	})
}

// after executes the ring's calls and events after an input.
func (n *Node) after() {
	s := n.sim
	ready := n.Ready()
	for _, e := range ready.Events {
		if changed, ok := e.(dht.StateChanged); ok && changed.New == dht.Worker {
			s.mixed = true
		}
		if s.OnEvent != nil {
			s.OnEvent(n, e)
		}
	}
	for _, c := range ready.Calls {
		n.call(Upkeep, c.To, c.Request, c.Timeout, func(answer *wire.Message, err error) {
			n.Result(s.Now(), c.ID, answer, err)
			n.after()
		})
	}
	next := n.Next()
	if !n.tickAt.IsZero() && !next.Before(n.tickAt) {
		return
	}
	n.tickAt = next
	n.Host.After(next.Sub(s.Now()), func() {
		if n.tickAt.Equal(next) {
			n.tickAt = time.Time{}
			n.Tick(s.Now())
			n.after()
		}
	})
}

// call sends a request to a peer.
func (n *Node) call(purpose Purpose, to dht.Peer, req *wire.Message, timeout time.Duration, done func(*wire.Message, error)) {
	s := n.sim
	target, member := s.byID[to.ID], n.member()
	var host *Host
	if target != nil {
		host = target.Host
	}
	s.Call(n.Host, host, &Call{
		Purpose: purpose, Size: framed(req), Timeout: timeout,
		Handle: func(reply func(int, any)) {
			if member { // workers are in no routing table
				target.table.Add(n.Peer)
			}
			target.answer(n.Peer.ID, req, func(m *wire.Message) { reply(framed(m), m) })
		},
		Done: func(answer any, err error) {
			m, _ := answer.(*wire.Message)
			if err == nil {
				n.table.Add(target.Peer)
			}
			done(m, err)
		},
	})
}

// Missed reports to the ring that a peer could not be reached.
func (n *Node) Missed(id peer.ID) {
	n.Unreachable(n.sim.Now(), id)
	n.after()
}

// farewell sends calls without waiting for answers.
func (n *Node) farewell(calls []dht.Call) {
	for _, c := range calls {
		n.call(Upkeep, c.To, c.Request, c.Timeout, func(*wire.Message, error) {})
	}
	n.after()
}

// framed returns the size of a message with its length prefix.
func framed(m *wire.Message) int {
	size := proto.Size(m)
	return size + len(binary.AppendUvarint(nil, uint64(size))) // a length
}

// answer answers a request, after a ping of a third peer if requested.
func (n *Node) answer(from peer.ID, req *wire.Message, reply func(*wire.Message)) {
	if n.lie != nil {
		reply(n.lie(req))
		return
	}
	about := req.GetPingRequest().GetTarget()
	if len(about) == 0 {
		m := n.Handle(n.sim.Now(), from, req)
		n.after()
		reply(m)
		return
	}
	third, ok := n.Relay(peer.ID(about))
	if !ok {
		reply(wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: wire.Reason_REASON_INVALID}}))
		return
	}
	n.call(Upkeep, third, wire.New(&wire.Message_PingRequest{PingRequest: &wire.PingRequest{}}), time.Second, func(_ *wire.Message, err error) {
		reply(wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: err == nil}}))
	})
}

// Lookup searches the owner of a key, as dht.DHT does, and passes the result to done.
func (n *Node) Lookup(key ring.Key, done func(dht.Lookup, error)) {
	s := n.sim
	search := n.Search(key)
	var pump func()
	pump = func() {
		for {
			to, ok := search.Ask(s.Now())
			if !ok {
				break
			}
			n.call(Lookups, to, search.Request(), lookupTimeout, func(answer *wire.Message, err error) {
				if search.Done() {
					return
				}
				search.Answer(s.Now(), to, answer, err)
				if err != nil {
					n.Missed(to.ID)
				}
				pump()
			})
		}
		if !search.Done() || done == nil {
			return
		}
		found, err := search.Found()
		if err == nil {
			n.Found(found)
		}
		end := done
		done = nil
		end(found, err)
	}
	pump()
}

// lookupTimeout is the timeout of one call of a lookup, as callTimeout of package dht.
const lookupTimeout = 2 * time.Second

// mix is the finalizer of splitmix64: it spreads a counter over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// bucketSize is kad-dht's k.
const bucketSize = 20

// Table is a routing table like kad-dht's: buckets of 20 peers by the length of the prefix shared
// with the table's owner.
type Table struct {
	self    ring.Key
	buckets [][]dht.Peer
	known   map[peer.ID]struct{}
}

var _ dht.Table = (*Table)(nil)

// NewTable returns an empty table of the peer at a key.
func NewTable(self ring.Key) *Table { return &Table{self: self, known: make(map[peer.ID]struct{})} }

// Add puts a peer into its bucket if there is space.
func (t *Table) Add(p dht.Peer) {
	b := prefix(t.self, p.Key())
	if _, known := t.known[p.ID]; known || b == 8*ring.KeySize {
		return
	}
	for len(t.buckets) <= b {
		t.buckets = append(t.buckets, nil)
	}
	if len(t.buckets[b]) < bucketSize {
		t.buckets[b] = append(t.buckets[b], p)
		t.known[p.ID] = struct{}{}
	}
}

// drop removes the peers for which gone returns true.
func (t *Table) drop(gone func(dht.Peer) bool) {
	for i := range t.buckets {
		t.buckets[i] = slices.DeleteFunc(t.buckets[i], func(p dht.Peer) bool {
			if gone(p) {
				delete(t.known, p.ID)
				return true
			}
			return false
		})
	}
}

// All implements dht.Table.
func (t *Table) All() []dht.Peer { return slices.Concat(t.buckets...) }

// Nearest implements dht.Table. Peers of the key's own bucket are nearer to it than those of longer
// prefixes, and these nearer than those of each shorter one.
func (t *Table) Nearest(key ring.Key, n int) []dht.Peer {
	own := min(prefix(t.self, key), len(t.buckets))
	var near []dht.Peer
	take := func(buckets [][]dht.Peer) {
		if len(near) >= n {
			return
		}
		more := slices.Concat(buckets...)
		slices.SortFunc(more, func(a, b dht.Peer) int { return xor(a.Key(), key).Compare(xor(b.Key(), key)) })
		near = append(near, more[:min(len(more), n-len(near))]...)
	}
	if own < len(t.buckets) {
		take(t.buckets[own : own+1])
		take(t.buckets[own+1:])
	}
	for b := own - 1; b >= 0; b-- {
		take(t.buckets[b : b+1])
	}
	return near
}

func xor(a, b ring.Key) ring.Key {
	for i := range a {
		a[i] ^= b[i]
	}
	return a
}

func prefix(a, b ring.Key) int {
	for i := range a {
		if d := a[i] ^ b[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 8 * ring.KeySize
}

// fill adds random live peers to each bucket, as kad-dht's refresh does. sorted is by position.
func (t *Table) fill(sorted []*Node, rnd *rand.Rand) {
	low, high := 0, len(sorted)
	for bit := 0; bit < 8*ring.KeySize && high-low > 1; bit++ {
		mid := low + split(sorted[low:high], bit)
		other, keep := [2]int{mid, high}, [2]int{low, mid}
		if t.self[bit/8]>>(7-bit%8)&1 == 1 {
			other, keep = keep, other
		}
		if size := other[1] - other[0]; size > bucketSize {
			for range bucketSize {
				t.Add(sorted[other[0]+rnd.IntN(size)].Peer)
			}
		} else {
			for _, p := range sorted[other[0]:other[1]] {
				t.Add(p.Peer)
			}
		}
		low, high = keep[0], keep[1]
	}
}

// split returns the index of the first peer whose bit is set; the peers share all bits before it.
func split(sorted []*Node, bit int) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i].key[bit/8]>>(7-bit%8)&1 == 1 })
}

// at returns the index of the first peer at or after a key, len(sorted) if there is none.
func at(sorted []*Node, key ring.Key) int {
	i, _ := slices.BinarySearchFunc(sorted, key, func(n *Node, key ring.Key) int { return cmp.Compare(n.key.Compare(key), 0) })
	return i
}
