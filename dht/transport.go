package dht

import (
	"context"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Transport carries one request to a peer and brings its answer back.
//
// It may use the addresses in Peer to dial; it may block until ctx ends, and not longer. An answer is a message that passed
// wire.Decode. A refusal is an answer, not an error. It is safe for concurrent use and retries nothing.
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

// Membership is what is known of the whole ring beyond the leaf set: a Kademlia routing table. It never contains this peer
// itself, and may contain peers that are gone. It is safe for concurrent use; the slices belong to the caller.
type Membership interface {
	Table
	// Closest asks the network for the peers nearest to key (GetClosestPeers): right but some thirty messages. It blocks.
	Closest(ctx context.Context, key ring.Key) ([]Peer, error)
	// Add offers peers that were met alive. It must not block on the network.
	Add(peers ...Peer)
}

// Handler answers the requests of other peers: (*DHT).Handle has this form. A transport calls it for each request that passed
// wire.Decode, with the peer that its connection proved, and sends the answer; on an error it sends nothing.
type Handler func(ctx context.Context, from peer.ID, req *wire.Message) (*wire.Message, error)

// Peer names a peer and says where it can be reached.
type Peer struct {
	ID          peer.ID  // libp2p's, of which the position follows
	Addrs       [][]byte // binary multiaddrs, opaque to this package; may be empty when the transport knows them
	Incarnation uint64   // grows with each start of the peer; 0 when unknown
	Role        Role     // member of the ring, or worker
	key         ring.Key // its position; zero when built as a literal
}

// NewPeer returns a peer whose position is computed once.
func NewPeer(id peer.ID, addrs [][]byte) Peer {
	return Peer{ID: id, Addrs: addrs, key: ring.PeerKey([]byte(id))}
}

// Key is the position of the peer on the ring.
func (p Peer) Key() ring.Key {
	if p.key == (ring.Key{}) {
		return ring.PeerKey([]byte(p.ID))
	}
	return p.key
}

// String is the peer's ID in its usual text form.
func (p Peer) String() string { return p.ID.String() }

func peerOf(p *wire.Peer) Peer {
	if p == nil {
		return Peer{}
	}
	q := NewPeer(peer.ID(p.GetId()), p.GetAddrs())
	q.Incarnation, q.Role = p.GetIncarnation(), roleOf(p.GetRole())
	return q
}

func peersOf(list []*wire.Peer) []Peer {
	peers := make([]Peer, len(list))
	for i, p := range list {
		peers[i] = peerOf(p)
	}
	return peers
}

func (p Peer) wire() *wire.Peer {
	return &wire.Peer{Id: []byte(p.ID), Addrs: p.Addrs, Incarnation: p.Incarnation, Role: p.Role.wire()}
}

func wirePeers(peers []Peer) []*wire.Peer {
	list := make([]*wire.Peer, len(peers))
	for i, p := range peers {
		list[i] = p.wire()
	}
	return list
}
