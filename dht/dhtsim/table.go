package dhtsim

import (
	"cmp"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
)

// bucketSize is kad-dht's k.
const bucketSize = 20

// Table is a routing table like kad-dht's: buckets of 20 peers by the length of the prefix shared
// with the table's owner.
type Table struct {
	self    ring.Key
	buckets [][]dht.Peer
	known   map[peer.ID]struct{}
}

var _ dht.Table = (*Table)(nil)

// NewTable returns an empty table of the peer at a key.
func NewTable(self ring.Key) *Table { return &Table{self: self, known: make(map[peer.ID]struct{})} }

// Add puts a peer into its bucket if there is space.
func (t *Table) Add(p dht.Peer) {
	b := prefix(t.self, p.Key())
	if _, known := t.known[p.ID]; known || b == 8*ring.KeySize {
		return
	}
	for len(t.buckets) <= b {
		t.buckets = append(t.buckets, nil)
	}
	if len(t.buckets[b]) < bucketSize {
		t.buckets[b] = append(t.buckets[b], p)
		t.known[p.ID] = struct{}{}
	}
}

// drop removes the peers for which gone returns true.
func (t *Table) drop(gone func(dht.Peer) bool) {
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

// All implements dht.Table.
func (t *Table) All() []dht.Peer { return slices.Concat(t.buckets...) }

// Nearest implements dht.Table. Peers of the key's own bucket are nearer to it than those of longer
// prefixes, and these nearer than those of each shorter one.
func (t *Table) Nearest(key ring.Key, n int) []dht.Peer {
	own := min(prefix(t.self, key), len(t.buckets))
	var near []dht.Peer
	take := func(buckets [][]dht.Peer) {
		if len(near) >= n {
			return
		}
		more := slices.Concat(buckets...)
		slices.SortFunc(more, func(a, b dht.Peer) int { return xor(a.Key(), key).Compare(xor(b.Key(), key)) })
		near = append(near, more[:min(len(more), n-len(near))]...)
	}
	if own < len(t.buckets) {
		take(t.buckets[own : own+1])
		take(t.buckets[own+1:])
	}
	for b := own - 1; b >= 0; b-- {
		take(t.buckets[b : b+1])
	}
	return near
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

// fill adds random live peers to each bucket, as kad-dht's refresh does. sorted is by position.
func (t *Table) fill(sorted []*Node, rnd *rand.Rand) {
	low, high := 0, len(sorted)
	for bit := 0; bit < 8*ring.KeySize && high-low > 1; bit++ {
		mid := low + split(sorted[low:high], bit)
		other, keep := [2]int{mid, high}, [2]int{low, mid}
		if t.self[bit/8]>>(7-bit%8)&1 == 1 {
			other, keep = keep, other
		}
		if size := other[1] - other[0]; size > bucketSize {
			for range bucketSize {
				t.Add(sorted[other[0]+rnd.IntN(size)].Peer)
			}
		} else {
			for _, p := range sorted[other[0]:other[1]] {
				t.Add(p.Peer)
			}
		}
		low, high = keep[0], keep[1]
	}
}

// split returns the index of the first peer whose bit is set; the peers share all bits before it.
func split(sorted []*Node, bit int) int {
	return sort.Search(len(sorted), func(i int) bool { return sorted[i].key[bit/8]>>(7-bit%8)&1 == 1 })
}

// at returns the index of the first peer at or after a key, len(sorted) if there is none.
func at(sorted []*Node, key ring.Key) int {
	i, _ := slices.BinarySearchFunc(sorted, key, func(n *Node, key ring.Key) int { return cmp.Compare(n.key.Compare(key), 0) })
	return i
}
