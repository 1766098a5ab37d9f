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
)

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
	if addrs = plain(addrs); len(addrs) > 0 {
		addrs = addrs[:min(len(addrs), maxMetAddrs)]
		b.Peerstore.AddAddrs(p, addrs, ttl)
		b.met.Add(p, struct{}{})
	}
}

// plain drops addresses that are too long.
func plain(addrs []ma.Multiaddr) []ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return len(a) > maxAddrParts })
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
