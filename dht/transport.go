package dht

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Transport carries one request to a peer and brings its answer back.
//
// It may use the addresses in Peer to dial; it may block until ctx ends, and not longer. An answer
// is a message that passed wire.Decode. A refusal is an answer, not an error. It is safe for
// concurrent use and retries nothing.
type Transport interface {
	// Call blocks until there is an answer or an error.
	Call(ctx context.Context, to Peer, req *wire.Message) (*wire.Message, error)
}

// Table is the local part of a Membership: what can be asked without the network.
type Table interface {
	// Nearest returns up to n peers of the local table by XOR distance to key, nearest first.
	Nearest(key ring.Key, n int) []Peer
	// All returns every peer of the local table.
	All() []Peer
}

// Membership is what is known of the whole ring beyond the leaf set: a Kademlia routing table. It
// never contains this peer itself, and may contain peers that are gone. It is safe for concurrent
// use; the slices belong to the caller.
type Membership interface {
	Table
	// Closest asks the network for the peers nearest to key (GetClosestPeers): right but some
	// thirty messages. It blocks.
	Closest(ctx context.Context, key ring.Key) ([]Peer, error)
	// Add offers peers that were met alive. It must not block on the network.
	Add(peers ...Peer)
}

// Handler answers the requests of other peers: (*DHT).Handle has this form. A transport calls it
// for each request that passed wire.Decode, with the peer that its connection proved, and sends the
// answer; on an error it sends nothing.
type Handler func(ctx context.Context, from peer.ID, req *wire.Message) (*wire.Message, error)

// Peer names a peer and says where it can be reached.
type Peer = member.Peer

// NewPeer returns a peer whose position is computed once.
func NewPeer(id peer.ID, addrs [][]byte) Peer { return member.New(id, addrs) }

// Role is what a peer can be: by whether others can dial it.
type Role = member.Role

const (
	// RoleMember peers can be dialled: they stand in the ring and own an arc.
	RoleMember = member.RoleMember
	// RoleWorker peers cannot: they own nothing, and work over connections of their own.
	RoleWorker = member.RoleWorker
)
