// Package member defines the identity of a peer: its ID, position in the ring, addresses and role;
// and their form in messages.
//
// A Peer is a plain value and immutable once shared; its position follows from its ID alone.
// Conversions from messages do not check limits: dht/wire does that first.
package member

import (
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Peer identifies a peer and its addresses.
type Peer struct {
	ID          peer.ID  // libp2p's; determines the position
	Addrs       [][]byte // binary multiaddrs, opaque to the ring; may be empty if the transport has them
	Incarnation uint64   // grows with each start of the peer; 0 if unknown
	Role        Role     // member of the ring, or worker
	key         ring.Key // its position; zero in a literal
}

// New returns a peer whose position is computed once.
func New(id peer.ID, addrs [][]byte) Peer { return Peer{ID: id, Addrs: addrs}.Placed() }

// Placed returns the peer with its position computed, also for a literal.
func (p Peer) Placed() Peer {
	p.key = p.Key()
	return p
}

// Key returns the position of the peer on the ring.
func (p Peer) Key() ring.Key {
	if p.key == (ring.Key{}) {
		return ring.PeerKey([]byte(p.ID))
	}
	return p.key
}

// String returns the peer's ID in its usual text form.
func (p Peer) String() string { return p.ID.String() }

// Role is the role of a peer, by whether others can dial it.
type Role uint8

const (
	// RoleMember peers can be dialed: they are ring members and own an arc.
	RoleMember Role = iota
	// RoleWorker peers cannot, because of NAT or a firewall: they own nothing, and work over
	// connections that they opened.
	RoleWorker
)

// String returns the role's name in lower case.
func (r Role) String() string {
	if r == RoleWorker {
		return "worker"
	}
	return "member"
}

// Of returns the peer in a message; without an ID if there is none.
func Of(p *wire.Peer) Peer {
	if p == nil {
		return Peer{}
	}
	q := New(peer.ID(p.GetId()), p.GetAddrs())
	q.Incarnation, q.Role = p.GetIncarnation(), RoleOf(p.GetRole())
	return q
}

// Distinct returns the peers of lists in order, each once.
func Distinct(lists ...[]Peer) (peers []Peer) {
	seen := make(map[peer.ID]bool)
	for _, p := range slices.Concat(lists...) {
		if !seen[p.ID] {
			seen[p.ID] = true
			peers = append(peers, p)
		}
	}
	return peers
}

// IDs returns the IDs of the peers of lists in order, each once.
func IDs(lists ...[]Peer) (ids []peer.ID) {
	for _, p := range Distinct(lists...) {
		ids = append(ids, p.ID)
	}
	return ids
}

// List returns the peers in a message, in order.
func List(list []*wire.Peer) []Peer {
	peers := make([]Peer, len(list))
	for i, p := range list {
		peers[i] = Of(p)
	}
	return peers
}

// RoleOf returns the role in a message.
func RoleOf(r wire.Role) Role {
	if r == wire.Role_ROLE_WORKER {
		return RoleWorker
	}
	return RoleMember
}

// Wire returns the peer in message form.
func (p Peer) Wire() *wire.Peer {
	return &wire.Peer{Id: []byte(p.ID), Addrs: p.Addrs, Incarnation: p.Incarnation, Role: p.Role.Wire()}
}

// Wire returns the peers in message form.
func Wire(peers []Peer) []*wire.Peer {
	list := make([]*wire.Peer, len(peers))
	for i, p := range peers {
		list[i] = p.Wire()
	}
	return list
}

// Wire returns the role in message form.
func (r Role) Wire() wire.Role {
	if r == RoleWorker {
		return wire.Role_ROLE_WORKER
	}
	return wire.Role_ROLE_MEMBER
}
