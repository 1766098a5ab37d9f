package p2p

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	kaddht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

const (
	// bucketSize is Kademlia's k. With 20, the peers nearest to a key hold its
	// successor or predecessor in every measured case (design 3).
	bucketSize = 20
	// refreshPeriod is the interval of lookups of random keys that fill the routing table. Each round
	// costs some tens of messages per used bucket; joins, leaves and connections update it between
	// rounds.
	refreshPeriod = 15 * time.Minute
	// viewAge is the maximum age of the cached view of the routing table while its size stays. A new
	// view costs a lock and some allocations per peer, and a lookup uses it several times.
	viewAge = time.Second
	// perBucket and perTable limit the peers of one IP group in the routing table of a public peer, so
	// that one network cannot fill it.
	perBucket, perTable = 3, 10
)

// Kad uses kad-dht's routing table as the membership of the ring. Only FIND_NODE is used; nothing
// is stored in it. It lives until its Net is closed.
type Kad struct {
	net *Net
	dht *kaddht.IpfsDHT

	mu    sync.Mutex // guards view and taken
	view  []dht.Peer // replaced, never modified
	taken time.Time  // creation time of view; zero: invalid
}

var _ dht.Membership = (*Kad)(nil)

// NewKad joins a Net to kad-dht under /apoidea/<network>, before it listens. A Net has at most one,
// and closes it.
func NewKad(n *Net) (*Kad, error) {
	options := []kaddht.Option{
		kaddht.ProtocolPrefix(protocol.ID(protocolRoot + n.cfg.Network)),
		kaddht.Mode(kadMode(n.cfg.Reachability)),
		kaddht.BucketSize(bucketSize),
		kaddht.DisableProviders(),
		kaddht.DisableValues(),
		kaddht.RoutingTableRefreshPeriod(refreshPeriod),
	}
	if n.cfg.Profile == Public {
		options = append(options,
			kaddht.QueryFilter(kaddht.PublicQueryFilter),
			kaddht.RoutingTableFilter(kaddht.PublicRoutingTableFilter),
			kaddht.RoutingTablePeerDiversityFilter(kaddht.NewRTPeerDiversityFilter(n.host, perBucket, perTable)),
			kaddht.AddressFilter(publicAddrs))
	}
	table, err := kaddht.New(newKadHost(n), options...)
	if err != nil {
		return nil, fmt.Errorf("kad-dht: %w", err)
	}
	k := &Kad{net: n, dht: table}
	if !n.kad.CompareAndSwap(nil, k) {
		return nil, errors.Join(errors.New("kad-dht: already attached to this Net"), table.Close())
	}
	return k, nil
}

// kadMode: a peer that cannot be dialed is a client only. With ReachAuto that changes with SetRole.
func kadMode(r Reachability) kaddht.ModeOpt {
	switch r {
	case ReachAuto:
		return kaddht.ModeAuto
	case ReachPrivate:
		return kaddht.ModeClient
	default:
		return kaddht.ModeServer
	}
}

// Nearest returns up to n peers of the routing table by XOR distance to key, nearest first. A
// replaced peer shows within a second.
func (k *Kad) Nearest(key ring.Key, n int) []dht.Peer {
	return nearest(k.table(), key, n)
}

// All returns every peer of the routing table.
func (k *Kad) All() []dht.Peer { return slices.Clone(k.table()) }

// Size returns the number of peers in the routing table.
func (k *Kad) Size() int { return k.dht.RoutingTable().Size() }

// table returns the peers of the routing table; the slice is shared.
func (k *Kad) table() []dht.Peer {
	now, size := time.Now(), k.Size()
	k.mu.Lock()
	defer k.mu.Unlock()
	if size != len(k.view) || now.Sub(k.taken) > viewAge {
		ids := k.dht.RoutingTable().ListPeers()
		k.view = make([]dht.Peer, len(ids))
		for i, id := range ids {
			k.view[i] = k.net.Peer(id)
		}
		k.taken = now
	}
	return k.view
}

// forget removes a peer that could not be dialed from the routing table: kad-dht would return it
// for many more minutes.
func (k *Kad) forget(id peer.ID) {
	k.dht.RoutingTable().RemovePeer(id)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.taken = time.Time{}
}

// Add records the addresses of peers that answered, and offers those that are connected and use
// kad-dht to the routing table.
func (k *Kad) Add(peers ...dht.Peer) {
	for _, p := range peers {
		if p.ID == k.net.self {
			continue
		}
		k.net.Met(p.ID, p.Addrs)
		if k.net.Connected(p.ID) && k.member(p.ID) {
			// A full bucket keeps its peers: not an error.
			_, _ = k.dht.RoutingTable().TryAddPeer(p.ID, true, true)
		}
	}
}

// member reports whether a peer announced this network's kad-dht.
func (k *Kad) member(id peer.ID) bool {
	spoken, err := k.net.host.Peerstore().SupportsProtocols(id, k.net.kadProtocol())
	return err == nil && len(spoken) > 0
}

// Closest asks the network for the peers nearest to key, nearest first. It costs about thirty
// messages: for joining, and when the local table is not enough.
func (k *Kad) Closest(ctx context.Context, key ring.Key) ([]dht.Peer, error) {
	ids, err := k.dht.GetClosestPeers(ctx, k.preimage(key))
	if err != nil {
		return nil, fmt.Errorf("peers closest to %s: %w", key, err)
	}
	peers := make([]dht.Peer, len(ids))
	for i, id := range ids {
		peers[i] = k.net.Peer(id)
	}
	return nearest(peers, key, bucketSize), nil
}

// searchBits is the number of leading bits of a key that a preimage matches. Peers that tie in so
// many bits of their distance may be cut at the wrong one; among n peers the nearest twenty tie so
// only where n approaches 20 * 2^16.
const searchBits = 16

// preimage returns a string that kad-dht hashes to (almost) key. FIND_NODE carries the preimage of
// the target, so a peer's own ID serves if key is its position; otherwise we search a string whose
// hash has the same leading bits: 65,536 hashes on average, a few milliseconds.
func (k *Kad) preimage(key ring.Key) string {
	if ring.PeerKey([]byte(k.net.self)) == key {
		return string(k.net.self)
	}
	want := binary.BigEndian.Uint32(key[:]) >> (32 - searchBits)
	var b [8]byte
	for i := uint64(0); ; i++ {
		binary.BigEndian.PutUint64(b[:], i)
		sum := sha256.Sum256(b[:])
		if binary.BigEndian.Uint32(sum[:])>>(32-searchBits) == want {
			return string(b[:])
		}
	}
}

// nearest returns the n peers with the smallest XOR distance to key, in order.
func nearest(peers []dht.Peer, key ring.Key, n int) []dht.Peer {
	type ranked struct {
		distance uint64 // its first 64 bits: honest peers do not tie in them
		at       int
	}
	best := make([]ranked, 0, min(n, len(peers))+1)
	target := binary.BigEndian.Uint64(key[:])
	for i := range peers {
		at := peers[i].Key()
		r := ranked{binary.BigEndian.Uint64(at[:]) ^ target, i}
		if len(best) == n && (n == 0 || r.distance >= best[n-1].distance) {
			continue
		}
		place, _ := slices.BinarySearchFunc(best, r, func(a, b ranked) int { return cmp.Compare(a.distance, b.distance) })
		best = slices.Insert(best, place, r)
		best = best[:min(n, len(best))]
	}
	list := make([]dht.Peer, len(best))
	for i, r := range best {
		list[i] = peers[r.at]
	}
	return list
}

// Remembered returns up to n peers of the routing table as multiaddrs ending in /p2p/<peer>, one
// each, as entry points of the next start.
func (k *Kad) Remembered(n int) []string {
	var list []string
	for _, p := range k.All() {
		addrs := k.net.addrsOf(p.ID)
		if len(list) == n {
			break
		}
		if len(addrs) > 0 {
			list = append(list, addrs[0].String()+"/p2p/"+p.ID.String())
		}
	}
	return list
}

func (k *Kad) close() error { return k.dht.Close() }
