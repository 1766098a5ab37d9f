package p2p

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht"
)

// metAddrTTL is the lifetime of a reported address of an unconnected peer; each report renews it.
const metAddrTTL = 30 * time.Minute

// maxMetAddrs is the number of addresses of one peer taken from one message, and kept without a
// connection.
const maxMetAddrs = 16

// addresses manages the addresses of peers, in the peerstore of the host.
type addresses struct{ *ground }

// Met records addresses of a peer, binary multiaddrs that other peers reported. Invalid addresses,
// and in Public private ones, are dropped.
func (a *addresses) Met(id peer.ID, addrs [][]byte) {
	if id == a.self || len(addrs) == 0 {
		return
	}
	known := make([]ma.Multiaddr, 0, len(addrs))
	for _, b := range addrs[:min(len(addrs), maxMetAddrs)] {
		if addr, err := ma.NewMultiaddrBytes(b); err == nil && a.dialable(addr) {
			known = append(known, addr)
		}
	}
	a.host.Peerstore().AddAddrs(id, known, metAddrTTL)
}

// Addrs returns this peer's own dialable multiaddrs, each ending in /p2p/<peer>.
func (a *addresses) Addrs() []string {
	s := a.AddrsOf(a.self)
	for i := range s {
		s[i] += "/p2p/" + a.self.String()
	}
	return s
}

// AddrsOf returns the known multiaddrs of a peer, without /p2p: those of live connections and those
// reported.
func (a *addresses) AddrsOf(id peer.ID) []string {
	addrs := a.addrsOf(id)
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return s
}

func (a *addresses) addrsOf(id peer.ID) []ma.Multiaddr {
	if id == a.self {
		return a.host.Addrs()
	}
	return a.host.Peerstore().Addrs(id)
}

// Forget drops the addresses of a peer unless it is connected.
func (a *addresses) Forget(id peer.ID) {
	if !a.Connected(id) {
		a.host.Peerstore().UpdateAddrs(id, peerstore.PermanentAddrTTL, 0)
		a.host.Peerstore().ClearAddrs(id)
	}
}

// RelayedAddrsOf returns the known relay addresses of a peer, without /p2p. A peer that cannot be
// dialed has no other addresses useful to others.
func (a *addresses) RelayedAddrsOf(id peer.ID) (list []string) {
	for _, a := range a.addrsOf(id) {
		if isRelayed(a) && len(list) < relayCandidates {
			list = append(list, a.String())
		}
	}
	return list
}

// Peer returns a peer with its known addresses.
func (a *addresses) Peer(id peer.ID) dht.Peer {
	known := a.addrsOf(id)
	addrs := make([][]byte, 0, min(len(known), maxMetAddrs))
	for _, a := range known[:min(len(known), maxMetAddrs)] {
		addrs = append(addrs, a.Bytes())
	}
	return dht.NewPeer(id, addrs)
}

// dialable reports whether a reported address may be dialed.
func (a *addresses) dialable(addr ma.Multiaddr) bool {
	return a.cfg.Profile != Public || manet.IsPublicAddr(addr)
}
