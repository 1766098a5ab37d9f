// Package member says who a peer is: its name, where it stands in the ring, where it is reached,
// and whether others can dial it; and how a message says the same. It knows no ring and no network.
//
// Its promises: a Peer is a plain value, which nobody changes once it is given away; its position
// follows from its name alone. What a message says of a peer is taken as it stands: its bounds are
// dht/wire's to check before.
package member

import (
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Peer names a peer and says where it can be reached.
type Peer struct {
	ID          peer.ID  // libp2p's, of which the position follows
	Addrs       [][]byte // binary multiaddrs, opaque to the ring; may be empty when the transport knows them
	Incarnation uint64   // grows with each start of the peer; 0 when unknown
	Role        Role     // member of the ring, or worker
	key         ring.Key // its position; zero when built as a literal
}

// New returns a peer whose position is computed once.
func New(id peer.ID, addrs [][]byte) Peer { return Peer{ID: id, Addrs: addrs}.Placed() }

// Placed returns the same peer with its position computed once, also when it was built as a
// literal.
func (p Peer) Placed() Peer {
	p.key = p.Key()
	return p
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

// Role is what a peer can be: by whether others can dial it.
type Role uint8

const (
	// RoleMember peers can be dialled: they stand in the ring and own an arc.
	RoleMember Role = iota
	// RoleWorker peers cannot, because of NAT or a firewall: they own nothing, and work over
	// connections of their own.
	RoleWorker
)

// String names the role in lower case.
func (r Role) String() string {
	if r == RoleWorker {
		return "worker"
	}
	return "member"
}

// Of is the peer that a message names; without an ID when it names none.
func Of(p *wire.Peer) Peer {
	if p == nil {
		return Peer{}
	}
	q := New(peer.ID(p.GetId()), p.GetAddrs())
	q.Incarnation, q.Role = p.GetIncarnation(), RoleOf(p.GetRole())
	return q
}

// List are the peers that a message names, in its order.
func List(list []*wire.Peer) []Peer {
	peers := make([]Peer, len(list))
	for i, p := range list {
		peers[i] = Of(p)
	}
	return peers
}

// RoleOf is the role that a message names.
func RoleOf(r wire.Role) Role {
	if r == wire.Role_ROLE_WORKER {
		return RoleWorker
	}
	return RoleMember
}

// Wire is the peer as a message names it.
func (p Peer) Wire() *wire.Peer {
	return &wire.Peer{Id: []byte(p.ID), Addrs: p.Addrs, Incarnation: p.Incarnation, Role: p.Role.Wire()}
}

// Wire are the peers as a message names them.
func Wire(peers []Peer) []*wire.Peer {
	list := make([]*wire.Peer, len(peers))
	for i, p := range peers {
		list[i] = p.Wire()
	}
	return list
}

// Wire is the role as a message names it.
func (r Role) Wire() wire.Role {
	if r == RoleWorker {
		return wire.Role_ROLE_WORKER
	}
	return wire.Role_ROLE_MEMBER
}
