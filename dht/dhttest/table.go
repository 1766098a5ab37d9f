package dhttest

import (
	"context"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// bucketSize is kad-dht's k.
const bucketSize = 20

// Table is a routing table like kad-dht's: buckets of 20 peers by the length of the prefix that they share with their owner. It is safe for
// concurrent use.
type Table struct {
	self ring.Key

	mu      sync.Mutex // guards what follows
	buckets [][]dht.Peer
	known   map[peer.ID]bool
	search  func(ctx context.Context, key ring.Key) ([]dht.Peer, error)
}

var _ dht.Membership = (*Table)(nil)

// NewTable returns the empty table of a peer.
func NewTable(self dht.Peer) *Table {
	return &Table{self: self.Key(), known: map[peer.ID]bool{}}
}

// Add puts peers into their buckets where there is room.
func (t *Table) Add(peers ...dht.Peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range peers {
		b := prefix(t.self, p.Key())
		if t.known[p.ID] || b == 8*ring.KeySize {
			continue
		}
		for len(t.buckets) <= b {
			t.buckets = append(t.buckets, nil)
		}
		if len(t.buckets[b]) < bucketSize {
			t.buckets[b] = append(t.buckets[b], p)
			t.known[p.ID] = true
		}
	}
}

// Drop takes out those peers for which gone is true.
func (t *Table) Drop(gone func(dht.Peer) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.buckets {
		t.buckets[i] = slices.DeleteFunc(t.buckets[i], func(p dht.Peer) bool {
			if gone(p) {
				delete(t.known, p.ID)
				return true
			}
			return false
		})
	}
}

// Nearest implements dht.Table.
func (t *Table) Nearest(key ring.Key, n int) []dht.Peer {
	return nearest(t.All(), key, n)
}

// All implements dht.Table.
func (t *Table) All() []dht.Peer {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Concat(t.buckets...)
}

// Closest implements dht.Membership; it asks whatever network the table belongs to, and the table itself without one.
func (t *Table) Closest(ctx context.Context, key ring.Key) ([]dht.Peer, error) {
	if t.search == nil {
		return t.Nearest(key, bucketSize), nil
	}
	return t.search(ctx, key)
}

func nearest(peers []dht.Peer, key ring.Key, n int) []dht.Peer {
	slices.SortFunc(peers, func(a, b dht.Peer) int { return xor(a.Key(), key).Compare(xor(b.Key(), key)) })
	return peers[:min(n, len(peers))]
}

func xor(a, b ring.Key) ring.Key {
	for i := range a {
		a[i] ^= b[i]
	}
	return a
}

func prefix(a, b ring.Key) int {
	for i := range a {
		if d := a[i] ^ b[i]; d != 0 {
			return 8*i + bits.LeadingZeros8(d)
		}
	}
	return 8 * ring.KeySize
}

// fill adds to each bucket random ones of the sorted peers that belong there, as kad-dht's refresh does.
func (t *Table) fill(sorted []dht.Peer, rnd *rand.Rand) {
	low, high := 0, len(sorted)
	for bit := 0; bit < 8*ring.KeySize && high-low > 1; bit++ {
		mid := low + split(sorted[low:high], bit)
		other, keep := [2]int{mid, high}, [2]int{low, mid}
		if t.self[bit/8]>>(7-bit%8)&1 == 1 {
			other, keep = keep, other
		}
		for range min(bucketSize, other[1]-other[0]) {
			t.Add(sorted[other[0]+rnd.IntN(other[1]-other[0])])
		}
		if other[1]-other[0] <= bucketSize {
			t.Add(sorted[other[0]:other[1]]...)
		}
		low, high = keep[0], keep[1]
	}
}

// split is the index of the first peer whose bit is set; the peers share all bits before it.
func split(sorted []dht.Peer, bit int) int {
	at, _ := slices.BinarySearchFunc(sorted, byte(1), func(p dht.Peer, one byte) int {
		k := p.Key()
		return int(k[bit/8]>>(7-bit%8)&1) - int(one)
	})
	return at
}

// refreshEvery is the time between two refreshes of a table.
const refreshEvery = 30 * time.Second

// refreshLater refreshes the table of a peer after delay and then again and again, while that life of it lasts.
func (s *Sim) refreshLater(n *Node, life int, delay time.Duration) {
	s.At(delay, func() {
		if n.life != life {
			return
		}
		s.refresh(n)
		s.refreshLater(n, life, refreshEvery+time.Duration(s.rnd.Int64N(int64(refreshEvery)))/4)
	})
}

// refresh drops the dead and fills the buckets. A peer that nobody knows has nobody to ask, and its table stays as it is.
func (s *Sim) refresh(n *Node) {
	n.Table.Drop(func(p dht.Peer) bool { return !s.byID[p.ID].Alive || s.byID[p.ID].Self().Role != dht.RoleMember })
	if len(n.Table.All()) > 0 {
		n.Table.fill(s.Sorted(s.ringOf(n.Index)), s.rnd)
	}
}

func (s *Sim) ringOf(i int) int {
	if s.Ring == nil {
		return 0
	}
	return s.Ring(i)
}
