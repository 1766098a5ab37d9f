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
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"

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
	table, err := kaddht.New(&kadHost{Host: n.host, life: n.life, pace: rate.NewLimiter(kadRate, kadRate), asked: make(map[peer.ID]int)}, options...)
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

const (
	// maxKadFrame is the maximum size of a kad-dht answer in bytes, maxKadQuestion that of a request,
	// which is a kind and a key. The library accepts 4 MiB, and an empty part of two bytes takes fifty
	// times that decoded.
	maxKadFrame    = 16 << 10
	maxKadQuestion = 1 << 10
	// maxKadAddrs is the maximum size of the addresses of one peer in an answer, in bytes: a bucket of
	// peers and the answering peer, with IDs and framing, fit into a frame.
	maxKadAddrs = maxKadFrame/(bucketSize+1) - 128
	// maxKadLength is the maximum length in bytes of a frame's length prefix.
	maxKadLength = 3
	// maxKadStreams is the number of concurrent streams of one peer; the library opens one. kadRate is
	// the number of answers per second to all peers, kadWrite the timeout of writing an answer.
	maxKadStreams = 4
	kadRate       = 300
	kadWrite      = 15 * time.Second
)

// kadHost wraps the host for kad-dht: it limits the frames that are read and the addresses that are
// sent.
type kadHost struct {
	host.Host
	life  context.Context //nolint:containedctx // the Net's: requests wait for the rate limit until it ends
	pace  *rate.Limiter
	mu    sync.Mutex // guards the fields below
	asked map[peer.ID]int
}

// SetStreamHandler implements host.Host.
func (h *kadHost) SetStreamHandler(id protocol.ID, handle network.StreamHandler) {
	h.Host.SetStreamHandler(id, func(s network.Stream) {
		from := s.Conn().RemotePeer()
		if !h.begins(from) {
			_ = s.Reset()
			return
		}
		defer h.ends(from)
		handle(&kadStream{Stream: s, most: maxKadQuestion, turn: func() error { return h.pace.Wait(h.life) }})
	})
}

// begins counts one more stream of a peer; false if that exceeds the limit.
func (h *kadHost) begins(from peer.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked[from] >= maxKadStreams {
		return false
	}
	h.asked[from]++
	return true
}

// ends releases the count of begins.
func (h *kadHost) ends(from peer.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.asked[from]--; h.asked[from] == 0 {
		delete(h.asked, from)
	}
}

// NewStream implements host.Host.
func (h *kadHost) NewStream(ctx context.Context, to peer.ID, ids ...protocol.ID) (network.Stream, error) {
	s, err := h.Host.NewStream(ctx, to, ids...)
	if err != nil {
		return nil, err
	}
	return &kadStream{Stream: s, most: maxKadFrame}, nil
}

// Peerstore implements host.Host.
func (h *kadHost) Peerstore() peerstore.Peerstore { return kadPeerstore{h.Host.Peerstore()} }

// kadPeerstore returns at most as many addresses of a peer as fit into an answer: a peer that
// announces thousands must not make the answers of others too long.
type kadPeerstore struct{ peerstore.Peerstore }

// PeerInfo implements peerstore.Peerstore; answers are built from it.
func (p kadPeerstore) PeerInfo(id peer.ID) peer.AddrInfo {
	info := p.Peerstore.PeerInfo(id)
	room := maxKadAddrs
	for i, a := range info.Addrs {
		if room -= len(a.Bytes()) + maxKadLength; room < 0 {
			info.Addrs = info.Addrs[:i]
			break
		}
	}
	return info
}

// kadStream checks the frames that are read, uvarint(length) and the body, and fails before it
// passes on the length of one that is too long. One goroutine reads it at a time.
type kadStream struct {
	network.Stream
	turn   func() error // waits for the rate limit before a request is answered; nil if frames are answers
	most   int          // maximum bytes of a frame
	left   int          // bytes left of the current frame
	length int          // of the next frame, as far as read
	shift  uint         // bits of it read so far
}

// Read implements network.Stream.
func (s *kadStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b)
	for rest := b[:n]; len(rest) > 0; {
		if s.left > 0 {
			part := min(s.left, len(rest))
			s.left, rest = s.left-part, rest[part:]
			continue
		}
		s.length |= int(rest[0]&0x7f) << s.shift
		s.shift += 7
		more := rest[0] >= 0x80
		if s.length > s.most || more && s.shift >= 7*maxKadLength {
			_ = s.Reset()
			return 0, fmt.Errorf("kad-dht: a frame of over %d bytes", s.most)
		}
		if rest = rest[1:]; !more {
			s.left, s.length, s.shift = s.length, 0, 0
			if s.turn != nil {
				if err := s.turn(); err != nil {
					return 0, err
				}
			}
		}
	}
	return n, err
}

// Write implements network.Stream.
func (s *kadStream) Write(b []byte) (int, error) {
	if s.turn != nil {
		if err := s.SetWriteDeadline(time.Now().Add(kadWrite)); err != nil {
			return 0, err
		}
	}
	return s.Stream.Write(b)
}
