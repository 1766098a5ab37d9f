// Package rpctest provides a scripted ring and network for tests.
package rpctest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// NewPeers generates peer IDs.
func NewPeers(t *testing.T, n int) []peer.ID {
	t.Helper()
	ids := make([]peer.ID, n)
	for i := range ids {
		key, err := member.GenerateIdentity(1, func([]peer.ID) int { return 0 })
		if err == nil {
			ids[i], err = peer.IDFromPrivateKey(key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

// Ring is a scripted rpc.Ring. Guess returns Believed, Lookup finds Real.
type Ring struct {
	Self peer.ID

	mu       sync.Mutex // guards the fields below, once the ring is in use
	Believed func(ring.Key) peer.ID
	Real     func(ring.Key) peer.ID
	// Recorded calls.
	Lookups int
	Gone    []peer.ID
}

var _ rpc.Ring = (*Ring)(nil)

// OwnedBy returns a function by which one peer owns everything.
func OwnedBy(id peer.ID) func(ring.Key) peer.ID { return func(ring.Key) peer.ID { return id } }

// Set changes the ring while it is in use.
func (r *Ring) Set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// Serves implements rpc.Ring.
func (r *Ring) Serves(key ring.Key) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.Real(key) == r.Self
}

// Guess implements rpc.Ring.
func (r *Ring) Guess(key ring.Key) (dht.Peer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.Believed(key)
	return dht.Peer{ID: id}, id != ""
}

// Hint implements rpc.Ring.
func (r *Ring) Hint(key ring.Key) *dhtwire.Hint {
	id := []byte(r.Real(key))
	end := ring.PeerKey(id)
	return &dhtwire.Hint{Owner: &dhtwire.Peer{Id: id}, Start: make([]byte, ring.KeySize), End: end[:]}
}

// Learn sets Believed to Real.
func (r *Ring) Learn(...*dhtwire.Hint) { r.Set(func() { r.Believed = r.Real }) }

// Lookup returns the real owner, and counts the call.
func (r *Ring) Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Lookups++
	id := r.Real(key)
	if id == "" {
		return dht.Lookup{}, errors.Join(dht.ErrNoOwner, ctx.Err())
	}
	r.Believed = r.Real
	return dht.Lookup{Owner: dht.Peer{ID: id}}, ctx.Err()
}

// Unreachable implements rpc.Ring.
func (r *Ring) Unreachable(id peer.ID) { r.Set(func() { r.Gone = append(r.Gone, id) }) }

// SlowRing looks up owners as slowly as its context allows.
type SlowRing struct{ *Ring }

// Lookup implements rpc.Ring.
func (r SlowRing) Lookup(ctx context.Context, _ ring.Key) (dht.Lookup, error) {
	<-ctx.Done()
	return dht.Lookup{}, ctx.Err()
}

// Serve answers the calls to a peer.
type Serve = func(ctx context.Context, service string, req []byte) ([]byte, error)

// Net carries calls to functions. A peer without one cannot be reached.
type Net struct {
	mu    sync.Mutex
	serve map[peer.ID]Serve
	calls []peer.ID
}

var _ rpc.Caller = (*Net)(nil)

// NewNet returns a network without peers.
func NewNet() *Net { return &Net{serve: make(map[peer.ID]Serve)} }

// Call implements rpc.Caller.
func (n *Net) Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	n.mu.Lock()
	n.calls = append(n.calls, to)
	serve := n.serve[to]
	n.mu.Unlock()
	if serve == nil {
		return nil, fmt.Errorf("call %s: %w", to, calls.ErrUnreachable)
	}
	return serve(ctx, service, req)
}

// At sets the handler of a peer; nil: it cannot be reached.
func (n *Net) At(id peer.ID, serve Serve) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.serve[id] = serve
}

// Called returns the peers that were called, in order.
func (n *Net) Called() []peer.ID {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]peer.ID(nil), n.calls...)
}

// Answers returns a Serve with a constant answer.
func Answers(text string, err error) Serve {
	return func(context.Context, string, []byte) ([]byte, error) { return []byte(text), err }
}
