package rpctest

import (
	"context"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc"
)

// Untrusted is a gate that trusts no caller.
type Untrusted struct{}

var _ rpc.Authorizer = Untrusted{}

// Member implements rpc.Gate.
func (Untrusted) Member(context.Context, peer.ID) bool { return false }

// Works implements rpc.Gate.
func (Untrusted) Works(context.Context, peer.ID, func() []string) bool { return false }

// Owns implements rpc.Gate.
func (Untrusted) Owns(_ context.Context, _ peer.ID, keys []ring.Key) []bool {
	return make([]bool, len(keys))
}

// Unpacks implements rpc.Gate.
func (Untrusted) Unpacks(context.Context, peer.ID, int64) (done func(), err error) {
	return func() {}, nil
}

// Rejected implements rpc.Gate.
func (Untrusted) Rejected(peer.ID, string, error) {}

// Members is a gate for which all callers are members, one of which owns everything.
type Members struct {
	Untrusted
	Owner peer.ID
}

var _ rpc.Authorizer = Members{}

// Member implements rpc.Gate.
func (Members) Member(context.Context, peer.ID) bool { return true }

// Works implements rpc.Gate.
func (Members) Works(context.Context, peer.ID, func() []string) bool { return true }

// Owns implements rpc.Gate.
func (m Members) Owns(_ context.Context, id peer.ID, keys []ring.Key) []bool {
	own := make([]bool, len(keys))
	for i := range own {
		own[i] = id == m.Owner
	}
	return own
}

// Workers is a gate for which all callers are untrusted peers that work on one host.
type Workers struct {
	Untrusted
	Host string
}

// Works implements rpc.Gate.
func (w Workers) Works(_ context.Context, _ peer.ID, hosts func() []string) bool {
	return slices.Contains(hosts(), w.Host)
}
