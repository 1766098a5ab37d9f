package reports

import (
	"hash/maphash"
	"math/bits"
	"sync"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// ways is the associativity: the number of slots for a hash.
const ways = 8

// Known remembers the hashes of links that an owner has acknowledged, in a set-associative table of
// fixed size that evicts the least recently used of eight. An eviction costs a repeated report. A
// collision would lose a page, so hashes have full length and are keyed by the process. Safe for
// concurrent use. The table is allocated with the first hash.
type Known struct {
	seed maphash.Seed

	mu   sync.Mutex
	sets [][ways]uint64 // nil until the first hash is added
	mask uint64
}

// NewKnown returns a table for that many links, rounded up to a power of two.
func NewKnown(entries int) *Known {
	n := uint64(1) << bits.Len64(uint64(max(entries-1, ways-1))/ways) // positive
	return &Known{seed: maphash.MakeSeed(), mask: n - 1}
}

// kindStep separates the hashes of a URL by the kind of its link: a page first found as an image
// must still be crawled.
const kindStep = 0x9e3779b97f4a7c15

// hash returns the hash of a link.
func (k *Known) hash(url string, kind link.Kind, of *Job) uint64 {
	return (maphash.String(k.seed, url) ^ of.salt) + uint64(kind)*kindStep
}

// Acknowledged adds the links of a report that its owner has on disk.
func (k *Known) Acknowledged(r *session.Report) { k.add(r.Note.(*Report).hashes) }

// filter removes known hashes, and appends the indexes of the others to keep.
func (k *Known) filter(hashes []uint64, keep []int32) []int32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, h := range hashes {
		if !k.touch(h) {
			keep = append(keep, int32(i)) // bounded by MaxLinks
		}
	}
	return keep
}

// touch reports whether h is known, and marks it as most recently used.
func (k *Known) touch(h uint64) bool {
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

// add adds hashes.
func (k *Known) add(hashes []uint64) {
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
