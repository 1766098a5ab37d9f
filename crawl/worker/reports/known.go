package reports

import (
	"hash/maphash"
	"math/bits"
	"sync"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// ways is the number of places that a hash may have.
const ways = 8

// Known remembers the hashes of links that an owner has acknowledged: a set-associative table of
// fixed size, the least recently met of eight making room. Forgetting costs a link told twice.
// Taking one link for another would lose a page, so hashes are whole and keyed by the process. Safe
// for concurrent use. A peer that has not crawled yet pays nothing for it.
type Known struct {
	seed maphash.Seed

	mu   sync.Mutex
	sets [][ways]uint64 // nil until the first hash is added
	mask uint64
}

// NewKnown returns one with room for that many links, rounded up to a power of two.
func NewKnown(entries int) *Known {
	n := uint64(1) << bits.Len64(uint64(max(entries-1, ways-1))/ways) // positive
	return &Known{seed: maphash.MakeSeed(), mask: n - 1}
}

// kindStep tells the hashes of a URL apart by what it was found as: a page met first as an image is
// still to be read.
const kindStep = 0x9e3779b97f4a7c15

// hash is what is remembered of a link.
func (k *Known) hash(url string, kind link.Kind, of *Job) uint64 {
	return (maphash.String(k.seed, url) ^ of.salt) + uint64(kind)*kindStep
}

// Acknowledged remembers the links of a report that its owner has on disk.
func (k *Known) Acknowledged(r *session.Report) { k.add(r.Note.(*Report).hashes) }

// filter keeps of hashes those that are not known, in keep their indexes. Both are returned with
// their length cut.
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

// touch says whether h is known, and makes it the last of its set to go.
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

// add makes hashes known.
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
