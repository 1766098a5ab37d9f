package p2p

import (
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/record"
	"github.com/libp2p/go-libp2p/p2p/host/peerstore/pstoremem"
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

const (
	// maxKnownPeers is the number of unconnected peers whose addresses are kept; the most recent are,
	// so that invented peers cannot displace one that is about to be dialed.
	maxKnownPeers = 4000
	// maxAddrParts is the maximum length of an address: /ip4/tcp/p2p/p2p-circuit/p2p has five parts.
	maxAddrParts = 8
	// maxProtocols is the number of protocols kept of a peer, maxProtocolNames their total length in
	// bytes; our peers have some 30 in 1 KiB. maxMetadata is the size of each other metadata item in
	// bytes.
	maxProtocols     = 64
	maxProtocolNames = 2 << 10
	maxMetadata      = 128
	// maxPeerRecord is the maximum size of a peer's signed address record, in bytes.
	maxPeerRecord = 4 << 10
)

// boundedPeerstore is the peerstore with limits for untrusted peers: libp2p's own, when full, drops
// what is new, and it accepts an address of a hundred parts.
type boundedPeerstore struct {
	peerstore.Peerstore
	peerstore.CertifiedAddrBook
	met *lru.Cache[peer.ID, struct{}] // unconnected peers, by time of the last report
}

// newBoundedPeerstore returns the peerstore of a peer. connected reports whether there is a
// connection.
func newBoundedPeerstore(self peer.ID, connected func(peer.ID) bool) (*boundedPeerstore, error) {
	// The library's limit on all addresses is never reached.
	store, err := pstoremem.NewPeerstore(pstoremem.WithMaxAddresses(1<<30), pstoremem.WithMaxAddressesPerPeer(maxMetAddrs))
	if err != nil {
		return nil, err
	}
	b := &boundedPeerstore{Peerstore: store, CertifiedAddrBook: store}
	b.met, err = lru.NewWithEvict(maxKnownPeers, func(p peer.ID, _ struct{}) {
		if p != self && !connected(p) {
			b.ClearAddrs(p)
		}
	})
	return b, err
}

// AddAddr implements peerstore.AddrBook.
func (b *boundedPeerstore) AddAddr(p peer.ID, addr ma.Multiaddr, ttl time.Duration) {
	b.AddAddrs(p, []ma.Multiaddr{addr}, ttl)
}

// AddAddrs implements peerstore.AddrBook.
func (b *boundedPeerstore) AddAddrs(p peer.ID, addrs []ma.Multiaddr, ttl time.Duration) {
	// Addresses that are too long are dropped.
	if addrs = slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return len(a) > maxAddrParts }); len(addrs) > 0 {
		addrs = addrs[:min(len(addrs), maxMetAddrs)]
		b.Peerstore.AddAddrs(p, addrs, ttl)
		b.met.Add(p, struct{}{})
	}
}

// SetProtocols implements peerstore.ProtoBook.
func (b *boundedPeerstore) SetProtocols(p peer.ID, names ...protocol.ID) error {
	return b.Peerstore.SetProtocols(p, brief(names)...)
}

// AddProtocols implements peerstore.ProtoBook.
func (b *boundedPeerstore) AddProtocols(p peer.ID, names ...protocol.ID) error {
	return b.Peerstore.AddProtocols(p, brief(names)...)
}

// brief drops names beyond the limit.
func brief(names []protocol.ID) (list []protocol.ID) {
	room := maxProtocolNames
	for _, name := range names[:min(len(names), maxProtocols)] {
		if len(name) > room {
			continue
		}
		room -= len(name)
		list = append(list, protocol.ID(strings.Clone(string(name)))) // not a slice of the received message
	}
	return list
}

// Put implements peerstore.PeerMetadata.
func (b *boundedPeerstore) Put(p peer.ID, key string, value any) error {
	if text, ok := value.(string); ok && len(text) > maxMetadata {
		value = strings.Clone(text[:maxMetadata])
	}
	return b.Peerstore.Put(p, key, value)
}

// ConsumePeerRecord implements peerstore.CertifiedAddrBook.
func (b *boundedPeerstore) ConsumePeerRecord(e *record.Envelope, ttl time.Duration) (accepted bool, err error) {
	if len(e.RawPayload) > maxPeerRecord {
		return false, nil
	}
	return b.CertifiedAddrBook.ConsumePeerRecord(e, ttl)
}
