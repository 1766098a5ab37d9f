package dhttest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Network carries calls between DHTs in one process, encoded and decoded as on a real wire. It waits with timers, so inside a synctest
// bubble it runs in virtual time. It is safe for concurrent use.
type Network struct {
	// Latency is one way between two peers; set it before the first call.
	Latency time.Duration
	// Loss is the share of calls that vanish.
	Loss float64

	mu    sync.Mutex // guards what follows
	rnd   *rand.Rand
	hosts map[peer.ID]*Host
	calls int
}

// Host is one peer's end of a Network: its dht.Transport and dht.Membership.
type Host struct {
	*Table
	net     *Network
	peer    dht.Peer
	handler dht.Handler
}

var (
	_ dht.Transport  = (*Host)(nil)
	_ dht.Membership = (*Host)(nil)
)

// NewNetwork returns a network without peers.
func NewNetwork(seed uint64, latency time.Duration) *Network {
	return &Network{Latency: latency, rnd: rand.New(rand.NewPCG(seed, 11)), hosts: map[peer.ID]*Host{}}
}

// Host returns the end of a peer that nobody can reach before Listen.
func (n *Network) Host(p dht.Peer) *Host {
	h := &Host{Table: NewTable(p), net: n, peer: p}
	h.search = func(context.Context, ring.Key) ([]dht.Peer, error) { return n.others(p.ID), nil }
	return h
}

// Listen lets others reach the peer.
func (h *Host) Listen(handler dht.Handler) {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	h.handler = handler
	h.net.hosts[h.peer.ID] = h
}

// Close makes the peer unreachable: calls to it are refused.
func (h *Host) Close() {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	delete(h.net.hosts, h.peer.ID)
}

// Calls is the number of calls made so far.
func (n *Network) Calls() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls
}

func (n *Network) others(id peer.ID) []dht.Peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	var peers []dht.Peer
	for _, h := range n.hosts {
		if h.peer.ID != id {
			peers = append(peers, h.peer)
		}
	}
	return peers
}

// Call implements dht.Transport.
func (h *Host) Call(ctx context.Context, to dht.Peer, req *wire.Message) (*wire.Message, error) {
	sent, err := wire.Encode(req)
	if err != nil {
		return nil, err
	}
	if lost := h.net.count(); lost {
		<-ctx.Done()
		return nil, ErrTimeout
	}
	if err := wait(ctx, h.net.Latency); err != nil {
		return nil, err
	}
	target, handler := h.net.reach(to.ID)
	if handler == nil {
		return nil, ErrRefused
	}
	received, err := wire.Decode(sent)
	if err != nil {
		return nil, err
	}
	target.Add(h.peer)
	answer, err := handler(ctx, h.peer.ID, received)
	if err != nil {
		return nil, err
	}
	back, err := wire.Encode(answer)
	if err != nil {
		return nil, err
	}
	if err := wait(ctx, h.net.Latency); err != nil {
		return nil, err
	}
	h.Add(target.peer)
	return wire.Decode(back)
}

func (n *Network) count() (lost bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	return n.Loss > 0 && n.rnd.Float64() < n.Loss
}

func (n *Network) reach(id peer.ID) (*Host, dht.Handler) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if h := n.hosts[id]; h != nil {
		return h, h.handler
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
