package dedup

import (
	"fmt"
	"slices"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Kind is the representation of sets in memory.
type Kind int

// The kinds.
const (
	// Exact keeps up to exactMax hashes of a set, and beyond that layers of filters. It is lossless.
	Exact Kind = iota
	// Paper keeps only the paper's filter, whose positives are final (Apoidea 2.3).
	Paper
)

// exactMax is the number of hashes of a set kept exactly: those that fit into the 8 KB of the
// paper's filter. Most hosts have fewer URLs.
const exactMax = 1000

// Sets are filters in front of many sets on disk, within a memory limit. Least recently used ones
// are evicted and loaded again on demand. A hash must be readable by the loader before it is added.
// For one goroutine.
type Sets[K comparable] struct {
	kind     Kind
	load     Loader[K]
	maxBytes int
	sets     *simplelru.LRU[K, *set]
	bytes    int
}

// Loader calls yield for each hash of a set on disk in any order, until yield returns false. An
// unknown set has none.
type Loader[K comparable] func(id K, yield func(hash uint64) bool) error

// set is one set in memory.
type set struct {
	seen seen
	size int // its share of Sets.bytes
}

// seen is the representation of a set.
type seen interface {
	test(hash uint64) bool
	// add returns the representation to use from now on.
	add(hash uint64) seen
	bytes() int
	falsePositive() float64
	len() int
}

// overhead is the approximate memory of a set besides its representation, in bytes: map, list,
// headers.
const overhead = 200

// NewSets returns empty sets that take up to about maxBytes of memory; the set in use is kept even
// if it exceeds that.
func NewSets[K comparable](kind Kind, load Loader[K], maxBytes int) *Sets[K] {
	s := &Sets[K]{kind: kind, load: load, maxBytes: maxBytes}
	// The bound is that of bytes. The error is for a size that is not positive.
	s.sets, _ = simplelru.NewLRU(maxBytes/overhead+1, func(_ K, of *set) { s.bytes -= of.size })
	return s
}

// Test reports whether hash may be in the set: false is always right. The error is that of the
// loader; the answer is then invalid.
func (s *Sets[K]) Test(id K, hash uint64) (bool, error) {
	of, err := s.get(id)
	if err != nil {
		return false, err
	}
	return of.seen.test(hash), nil
}

// Add adds hash, which must be readable by the loader, to the set. It is idempotent.
func (s *Sets[K]) Add(id K, hash uint64) error {
	of, err := s.get(id)
	if err != nil {
		return err
	}
	of.seen = of.seen.add(hash)
	s.resize(of)
	return nil
}

// Drop removes a set from memory, as when its host moved to another owner or its job was deleted.
func (s *Sets[K]) Drop(id K) { s.sets.Remove(id) }

// Stats are the sizes and error rates of Sets.
type Stats struct {
	Sets          int     // in memory
	Hashes        int     // in them
	Bytes         int     // approximate
	FalsePositive float64 // expected fraction of new hashes that Test reports, mean over the sets weighted by size
	ExpectedLoss  float64 // of Paper sets: expected fraction of URLs never crawled, weighted likewise; zero otherwise
}

// Stats iterates over all sets in memory.
func (s *Sets[K]) Stats() Stats {
	stats := Stats{Sets: s.sets.Len(), Bytes: s.bytes}
	for _, set := range s.sets.Values() {
		of := set.seen
		n := float64(of.len())
		stats.Hashes += of.len()
		stats.FalsePositive += n * of.falsePositive()
		if paper, ok := of.(paperSeen); ok {
			stats.ExpectedLoss += n * paper.ExpectedLoss()
		}
	}
	if stats.Hashes > 0 {
		stats.FalsePositive /= float64(stats.Hashes)
		stats.ExpectedLoss /= float64(stats.Hashes)
	}
	return stats
}

// get returns a set, and loads it if necessary.
func (s *Sets[K]) get(id K) (*set, error) {
	if of, ok := s.sets.Get(id); ok {
		return of, nil
	}
	of := &set{seen: exactSeen(nil)}
	if s.kind == Paper {
		of.seen = paperSeen{NewFilter()}
	}
	err := s.load(id, func(hash uint64) bool {
		of.seen = of.seen.add(hash)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("load seen URLs of set %v: %w", id, err)
	}
	s.sets.Add(id, of)
	s.resize(of)
	return of, nil
}

// resize updates the size of the set in use, and evicts others.
func (s *Sets[K]) resize(of *set) {
	size := of.seen.bytes() + overhead
	s.bytes += size - of.size
	of.size = size
	for s.bytes > s.maxBytes && s.sets.Len() > 1 {
		s.sets.RemoveOldest()
	}
}

// exactSeen is a sorted list of hashes.
type exactSeen []uint64

func (x exactSeen) test(hash uint64) bool {
	_, found := slices.BinarySearch(x, hash)
	return found
}

func (x exactSeen) add(hash uint64) seen {
	i, found := slices.BinarySearch(x, hash)
	if found {
		return x
	}
	if len(x) < exactMax {
		return slices.Insert(x, i, hash)
	}
	grown := layeredSeen{newLayers()}
	for _, h := range x {
		grown.layers.add(h)
	}
	grown.layers.add(hash)
	return grown
}

func (x exactSeen) bytes() int             { return 8 * cap(x) }
func (x exactSeen) falsePositive() float64 { return 0 }
func (x exactSeen) len() int               { return len(x) }

// layeredSeen are layers of filters.
type layeredSeen struct{ *layers }

func (l layeredSeen) add(hash uint64) seen {
	l.layers.add(hash)
	return l
}

// paperSeen is the paper's filter alone.
type paperSeen struct{ *Filter }

func (p paperSeen) test(hash uint64) bool { return p.Test(hash) }

func (p paperSeen) add(hash uint64) seen {
	p.Filter.Add(hash)
	return p
}

func (p paperSeen) bytes() int             { return p.bits.bytes() }
func (p paperSeen) falsePositive() float64 { return p.Filter.FalsePositive() }
func (p paperSeen) len() int               { return p.Len() }
