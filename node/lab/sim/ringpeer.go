package sim

import (
	"encoding/binary"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// RingPeer is one peer with its dht.Ring, driven over the network.
type RingPeer struct {
	*Host
	*dht.Ring

	world  *Ring
	peer   dht.Peer
	key    ring.Key
	table  *table
	tickAt time.Time
	memory *dht.Memory // what it kept when it died
}

// identity is a peer with the name, of the length of a real one, and the two addresses that a number stands for.
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
func (p *RingPeer) start(memory *dht.Memory, found bool) {
	w := p.world
	cfg := w.cfg
	cfg.Seed, cfg.Memory, cfg.Found = w.rnd.Uint64(), memory, found
	p.Host.Start()
	p.table = newTable(p.key)
	p.Ring = dht.NewRing(cfg, p.peer, p.table)
	if w.OnStart != nil {
		w.OnStart(p)
	}
	p.tickAt = time.Time{}
	p.Tick(w.Now())
	p.after()
	p.refreshLater(2 * time.Second)
}

// refreshEvery is the time between two refreshes of a routing table.
const refreshEvery = 30 * time.Second

// refreshLater refreshes the routing table after a delay and then again and again. A peer that knows nobody has nobody to ask.
func (p *RingPeer) refreshLater(delay time.Duration) {
	p.Host.After(delay, func() {
		w := p.world
		p.table.drop(func(q dht.Peer) bool { return !w.byID[q.ID].up })
		if len(p.table.known) > 0 {
			p.table.fill(w.sorted, w.rnd)
		}
		p.refreshLater(refreshEvery + time.Duration(w.rnd.Int64N(int64(refreshEvery)))/4)
	})
}

// after does what the ring wants done after an input.
func (p *RingPeer) after() {
	w := p.world
	ready := p.Ready()
	for _, e := range ready.Events {
		w.happened(p, e)
	}
	for _, c := range ready.Calls {
		p.call(Upkeep, c.To, c.Request, c.Timeout, func(answer *wire.Message, err error) {
			p.Result(w.Now(), c.ID, answer, err)
			p.after()
		})
	}
	next := p.Next()
	if !p.tickAt.IsZero() && !next.Before(p.tickAt) {
		return
	}
	p.tickAt = next
	p.Host.After(next.Sub(w.Now()), func() {
		if p.tickAt.Equal(next) {
			p.tickAt = time.Time{}
			p.Tick(w.Now())
			p.after()
		}
	})
}

// call sends a request to a peer by name.
func (p *RingPeer) call(purpose Purpose, to dht.Peer, req *wire.Message, timeout time.Duration, done func(*wire.Message, error)) {
	w := p.world
	target := w.byID[to.ID]
	var host *Host
	if target != nil {
		host = target.Host
	}
	w.Call(p.Host, host, &Call{
		Purpose: purpose, Size: framed(req), Timeout: timeout,
		Handle: func(reply func(int, any)) {
			target.table.add(p.peer)
			target.answer(p.peer.ID, req, func(m *wire.Message) { reply(framed(m), m) })
		},
		Done: func(answer any, err error) {
			m, _ := answer.(*wire.Message)
			if err == nil {
				p.table.add(target.peer)
			}
			done(m, err)
		},
	})
}

// framed is the size of a message with its length before it.
func framed(m *wire.Message) int {
	n := proto.Size(m)
	return n + len(binary.AppendUvarint(nil, uint64(n))) //nolint:gosec // a length
}

// answer lets the peer answer a request, after asking a third where the request wants that.
func (p *RingPeer) answer(from peer.ID, req *wire.Message, reply func(*wire.Message)) {
	about := req.GetPingRequest().GetTarget()
	if len(about) == 0 {
		m := p.Handle(p.world.Now(), from, req)
		p.after()
		reply(m)
		return
	}
	third, ok := p.Relay(peer.ID(about))
	if !ok {
		reply(wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: wire.Reason_REASON_INVALID}}))
		return
	}
	p.call(Upkeep, third, wire.New(&wire.Message_PingRequest{PingRequest: &wire.PingRequest{}}), time.Second, func(_ *wire.Message, err error) {
		reply(wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: err == nil}}))
	})
}

// Lookup searches the owner of a key, as dht.DHT does, and hands what it found to done.
func (p *RingPeer) Lookup(key ring.Key, done func(dht.Lookup, error)) {
	w := p.world
	search := p.Search(key)
	var pump func()
	pump = func() {
		for {
			to, ok := search.Ask(w.Now())
			if !ok {
				break
			}
			p.call(Lookups, to, search.Request(), lookupTimeout, func(answer *wire.Message, err error) {
				if search.Done() {
					return
				}
				search.Answer(w.Now(), to, answer, err)
				if err != nil {
					p.Unreachable(w.Now(), to.ID)
					p.after()
				}
				pump()
			})
		}
		if !search.Done() || done == nil {
			return
		}
		found, err := search.Lookup()
		if err == nil {
			p.Found(found)
		}
		end := done
		done = nil
		end(found, err)
	}
	pump()
}

// lookupTimeout bounds one call of a lookup: dht's CallTimeout.
const lookupTimeout = 2 * time.Second

// mix is the finalizer of splitmix64: it spreads a counter over all 64 bits.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
