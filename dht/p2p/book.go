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
	// maxKnownPeers bounds the peers without a connection whose addresses are remembered; who was
	// told of last is, so that nobody's made-up peers keep away whoever is dialled next.
	maxKnownPeers = 4000
	// maxAddrParts bounds an address: /ip4/tcp/p2p/p2p-circuit/p2p has five parts.
	maxAddrParts = 8
	// maxProtocols bounds what a peer says that it speaks, maxProtocolNames the names of it all
	// together in bytes; a peer of ours has some 30 in 1 KiB. maxMetadata bounds what else a peer
	// says of itself, in bytes each.
	maxProtocols     = 64
	maxProtocolNames = 2 << 10
	maxMetadata      = 128
	// maxPeerRecord bounds the signed record of a peer's addresses, in bytes.
	maxPeerRecord = 4 << 10
)

// book is the peerstore, with bounds that suit strangers: libp2p's own, when it is full, keeps what
// it has and drops what is new, and takes an address of a hundred parts.
type book struct {
	peerstore.Peerstore
	peerstore.CertifiedAddrBook
	met *lru.Cache[peer.ID, struct{}] // peers without a connection, by when they were told of
}

// newBook returns a book for a peer. connected says of others whether there is a connection.
func newBook(self peer.ID, connected func(peer.ID) bool) (*book, error) {
	// The bound on all addresses is never reached.
	store, err := pstoremem.NewPeerstore(pstoremem.WithMaxAddresses(1<<30), pstoremem.WithMaxAddressesPerPeer(maxMetAddrs))
	if err != nil {
		return nil, err
	}
	b := &book{Peerstore: store, CertifiedAddrBook: store}
	b.met, err = lru.NewWithEvict(maxKnownPeers, func(p peer.ID, _ struct{}) {
		if p != self && !connected(p) {
			b.ClearAddrs(p)
		}
	})
	return b, err
}

// AddAddr implements peerstore.AddrBook.
func (b *book) AddAddr(p peer.ID, addr ma.Multiaddr, ttl time.Duration) {
	b.AddAddrs(p, []ma.Multiaddr{addr}, ttl)
}

// AddAddrs implements peerstore.AddrBook.
func (b *book) AddAddrs(p peer.ID, addrs []ma.Multiaddr, ttl time.Duration) {
	if addrs = plain(addrs); len(addrs) > 0 {
		addrs = addrs[:min(len(addrs), maxMetAddrs)]
		b.Peerstore.AddAddrs(p, addrs, ttl)
		b.met.Add(p, struct{}{})
	}
}

// plain leaves out addresses that are too long.
func plain(addrs []ma.Multiaddr) []ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return len(a) > maxAddrParts })
}

// SetProtocols implements peerstore.ProtoBook.
func (b *book) SetProtocols(p peer.ID, names ...protocol.ID) error {
	return b.Peerstore.SetProtocols(p, brief(names)...)
}

// AddProtocols implements peerstore.ProtoBook.
func (b *book) AddProtocols(p peer.ID, names ...protocol.ID) error {
	return b.Peerstore.AddProtocols(p, brief(names)...)
}

// brief leaves out names beyond the bound.
func brief(names []protocol.ID) (list []protocol.ID) {
	room := maxProtocolNames
	for _, name := range names[:min(len(names), maxProtocols)] {
		if len(name) > room {
			continue
		}
		room -= len(name)
		list = append(list, protocol.ID(strings.Clone(string(name)))) // without the message that it came in
	}
	return list
}

// Put implements peerstore.PeerMetadata.
func (b *book) Put(p peer.ID, key string, value any) error {
	if text, ok := value.(string); ok && len(text) > maxMetadata {
		value = strings.Clone(text[:maxMetadata])
	}
	return b.Peerstore.Put(p, key, value)
}

// ConsumePeerRecord implements peerstore.CertifiedAddrBook.
func (b *book) ConsumePeerRecord(e *record.Envelope, ttl time.Duration) (accepted bool, err error) {
	if len(e.RawPayload) > maxPeerRecord {
		return false, nil
	}
	return b.CertifiedAddrBook.ConsumePeerRecord(e, ttl)
}
