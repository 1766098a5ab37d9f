// Package dhttest connects complete DHTs of one process for tests: [Mesh] carries their calls with
// a latency and a loss, and waits with timers, so that a synctest bubble runs it in virtual time.
package dhttest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Mesh carries calls between DHTs in one process, encoded and decoded as on a real network. It
// waits with timers: in a synctest bubble time is virtual. It is safe for concurrent use.
type Mesh struct {
	// Latency is the one-way delay; set it before the first call.
	Latency time.Duration
	// Loss is the fraction of calls that are lost.
	Loss float64

	mu    sync.Mutex // guards the fields below
	rnd   *rand.Rand
	ends  map[peer.ID]*End
	calls int
}

// End is one peer's end of a Mesh: its dht.Transport and dht.Membership.
type End struct {
	net     *Mesh
	peer    dht.Peer
	handler dht.Handler

	mu    sync.Mutex // guards the fields below
	table *dhtsim.Table
}

var (
	_ dht.Transport  = (*End)(nil)
	_ dht.Membership = (*End)(nil)
)

// NewMesh returns a mesh without peers.
func NewMesh(seed uint64, latency time.Duration) *Mesh {
	return &Mesh{Latency: latency, rnd: rand.New(rand.NewPCG(seed, 11)), ends: map[peer.ID]*End{}}
}

// End returns the end of a peer, unreachable before Listen.
func (n *Mesh) End(p dht.Peer) *End { return &End{net: n, peer: p, table: dhtsim.NewTable(p.Key())} }

// Add implements dht.Membership.
func (e *End) Add(peers ...dht.Peer) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range peers {
		e.table.Add(p)
	}
}

// All implements dht.Membership.
func (e *End) All() []dht.Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.All()
}

// Nearest implements dht.Membership.
func (e *End) Nearest(key ring.Key, n int) []dht.Peer {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.table.Nearest(key, n)
}

// Closest implements dht.Membership: it returns all peers.
func (e *End) Closest(context.Context, ring.Key) ([]dht.Peer, error) {
	return e.net.others(e.peer.ID), nil
}

// Listen makes the peer reachable.
func (e *End) Listen(handler dht.Handler) {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.handler = handler
	e.net.ends[e.peer.ID] = e
}

// Close makes the peer unreachable: calls to it are refused.
func (e *End) Close() {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	delete(e.net.ends, e.peer.ID)
}

// Calls returns the number of calls made so far.
func (n *Mesh) Calls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls
}

func (n *Mesh) others(id peer.ID) []dht.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	var peers []dht.Peer
	for _, e := range n.ends {
		if e.peer.ID != id {
			peers = append(peers, e.peer)
		}
	}
	return peers
}

// Call implements dht.Transport.
func (e *End) Call(ctx context.Context, to dht.Peer, req *wire.Message) (*wire.Message, error) {
	sent, err := wire.Encode(req)
	if err != nil {
		return nil, err
	}
	if lost := e.net.count(); lost {
		<-ctx.Done()
		return nil, dhtsim.ErrTimeout
	}
	if err := wait(ctx, e.net.Latency); err != nil {
		return nil, err
	}
	target, handler := e.net.reach(to.ID)
	if handler == nil {
		return nil, dhtsim.ErrRefused
	}
	received, err := wire.Decode(sent)
	if err != nil {
		return nil, err
	}
	target.Add(e.peer)
	answer, err := handler(ctx, e.peer.ID, received)
	if err != nil {
		return nil, err
	}
	back, err := wire.Encode(answer)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, e.net.Latency); err != nil {
		return nil, err
	}
	e.Add(target.peer)
	return wire.Decode(back)
}

func (n *Mesh) count() (lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	return n.Loss > 0 && n.rnd.Float64() < n.Loss
}

func (n *Mesh) reach(id peer.ID) (*End, dht.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if e := n.ends[id]; e != nil {
		return e, e.handler
	}
	return nil, nil
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
