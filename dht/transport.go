package dht

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Transport sends one request to a peer and returns its answer.
//
// It may use the addresses in Peer to dial; it may block until ctx ends, not longer. An answer is a
// message that passed wire.Decode. A refusal is an answer, not an error. It is safe for concurrent
// use and does not retry.
type Transport interface {
	// Call blocks until there is an answer or an error.
	Call(ctx context.Context, to Peer, req *wire.Message) (*wire.Message, error)
}

// Table is the local part of a Membership, without network calls.
type Table interface {
	// Nearest returns up to n peers of the local table by XOR distance to key, nearest first.
	Nearest(key ring.Key, n int) []Peer
	// All returns every peer of the local table.
	All() []Peer
}

// Membership is the Kademlia routing table: the known ring beyond the leaf set. It never contains
// this peer itself, and may contain peers that are gone. It is safe for concurrent use; the caller
// owns the slices.
type Membership interface {
	Table
	// Closest asks the network for the peers nearest to key (GetClosestPeers): exact, but some thirty
	// messages. It blocks.
	Closest(ctx context.Context, key ring.Key) ([]Peer, error)
	// Add offers peers that have answered. It must not block on the network.
	Add(peers ...Peer)
}

// Handler answers the requests of other peers, as (*DHT).Handle does. A transport calls it for each
// request that passed wire.Decode, with the authenticated peer, and sends the answer; on an error
// it sends nothing.
type Handler func(ctx context.Context, from peer.ID, req *wire.Message) (*wire.Message, error)

// Peer identifies a peer and its addresses.
type Peer = member.Peer

// NewPeer returns a peer whose position is computed once.
func NewPeer(id peer.ID, addrs [][]byte) Peer { return member.New(id, addrs) }

// Role is the role of a peer, by whether others can dial it.
type Role = member.Role

const (
	// RoleMember peers can be dialed: they are ring members and own an arc.
	RoleMember = member.RoleMember
	// RoleWorker peers cannot: they own nothing, and work over connections that they opened.
	RoleWorker = member.RoleWorker
)
