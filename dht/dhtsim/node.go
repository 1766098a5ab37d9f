package dhtsim

import (
	"encoding/binary"
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
		s.happened(n, e)
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

// lookupTimeout is the timeout of one call of a lookup, as dht's CallTimeout.
const lookupTimeout = 2 * time.Second

// mix is the finalizer of splitmix64: it spreads a counter over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
