package worker

import (
	"math/bits"
	"sync"
)

// ways is the number of places that a hash may have.
const ways = 8

// known remembers the hashes of links that an owner has acknowledged: a set-associative table of fixed size, the least recently met of eight
// making room. Forgetting costs a link told twice. Taking one link for another would lose a page, so hashes are whole and keyed by the process.
// Safe for concurrent use. A peer that has not crawled yet pays nothing for it.
type known struct {
	mu   sync.Mutex
	sets [][ways]uint64 // nil until the first hash is added
	mask uint64
}

func newKnown(entries int) *known {
	n := uint64(1) << bits.Len64(uint64(max(entries-1, ways-1))/ways) //nolint:gosec // positive
	return &known{mask: n - 1}
}

// filter keeps of hashes those that are not known, in keep their indexes. Both are returned with their length cut.
func (k *known) filter(hashes []uint64, keep []int32) []int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, h := range hashes {
		if !k.touch(h) {
			keep = append(keep, int32(i)) //nolint:gosec // bounded by MaxLinks
		}
	}
	return keep
}

// touch says whether h is known, and makes it the last of its set to go.
func (k *known) touch(h uint64) bool {
	if k.sets == nil {
		return false
	}
	set := &k.sets[h&k.mask]
	for i, other := range set {
		if other == h {
			copy(set[1:i+1], set[:i])
			set[0] = h
			return true
		}
	}
	return false
}

// add makes hashes known.
func (k *known) add(hashes []uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sets == nil && len(hashes) > 0 {
		k.sets = make([][ways]uint64, k.mask+1)
	}
	for _, h := range hashes {
		if k.touch(h) {
			continue
		}
		set := &k.sets[h&k.mask]
		copy(set[1:], set[:ways-1])
		set[0] = h
	}
}
