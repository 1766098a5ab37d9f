package dedup

import (
	"container/list"
	"fmt"
	"slices"
	"sync"
)

// Answer is the result of a membership test.
type Answer int

// The answers.
const (
	No    Answer = iota // certainly not in the set
	Yes                 // certainly in the set, or a false positive if the kind is Paper
	Maybe               // look it up in the exact set
)

// String returns the answer in lower case.
func (a Answer) String() string {
	return [...]string{"no", "yes", "maybe"}[a]
}

// SetID identifies a set: 16 bytes of the job and 16 of the host, or any other unique value.
type SetID [32]byte

// Loader reads the exact set on disk.
type Loader interface {
	// Hashes calls yield for each hash of the set in any order, until yield returns false. An unknown
	// set has none. It is called by one goroutine per set, which must not query that set meanwhile.
	Hashes(set SetID, yield func(hash uint64) bool) error
}

// Kind is the representation of sets in memory.
type Kind int

// The kinds.
const (
	// Exact keeps up to exactMax hashes of a set, and beyond that layers of filters. It is lossless.
	Exact Kind = iota
	// Paper keeps only the paper's filter and never answers Maybe (Apoidea 2.3).
	Paper
)

// exactMax is the number of hashes of a set kept exactly: those that fit into the 8 KB of the
// paper's filter. Most hosts have fewer URLs, and need no disk reads.
const exactMax = 1000

// Sets caches many sets within a memory limit. Least recently used sets are evicted and loaded
// again on demand.
//
// A hash must be readable through the Loader before it is added here; otherwise a set that is
// evicted and loaded between the two would lack it.
type Sets struct {
	kind     Kind
	loader   Loader
	maxBytes int

	mu        sync.Mutex              // guards the fields below; never held while a set is read
	sets      map[SetID]*list.Element // of *set
	loading   map[SetID]*loading
	recent    list.List // most recently used first
	bytes     int
	loads     uint64
	evictions uint64
}

// set is one set in memory.
type set struct {
	id   SetID
	seen seen
	size int // its share of Sets.bytes
}

// loading is a set being read. Concurrent Test and Add of it wait, so that no hash is lost.
type loading struct {
	done  chan struct{} // closed when it was read
	stale bool          // dropped meanwhile
	err   error
}

// seen is the representation of a set.
type seen interface {
	test(hash uint64) Answer
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
func NewSets(kind Kind, loader Loader, maxBytes int) *Sets {
	return &Sets{kind: kind, loader: loader, maxBytes: maxBytes, sets: map[SetID]*list.Element{}, loading: map[SetID]*loading{}}
}

// Test reports whether hash is in set. The error is that of the Loader; the answer is then invalid.
func (s *Sets) Test(id SetID, hash uint64) (Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, err := s.get(id)
	if err != nil {
		return Maybe, err
	}
	return of.seen.test(hash), nil
}

// Add adds hash, which must be readable through the Loader, to set. It is idempotent.
func (s *Sets) Add(id SetID, hash uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, err := s.get(id)
	if err != nil {
		return err
	}
	of.seen = of.seen.add(hash)
	s.resize(of)
	s.evict()
	return nil
}

// Drop removes a set from memory, as when its host moved to another owner or its job was deleted.
func (s *Sets) Drop(id SetID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.sets[id]; ok {
		s.remove(e)
	}
	if l := s.loading[id]; l != nil {
		l.stale = true
	}
}

// Filter returns a copy of the filter of a Paper set, for handoff with its host; nil for an Exact
// one.
func (s *Sets) Filter(id SetID) (*Filter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of, err := s.get(id)
	if err != nil {
		return nil, err
	}
	paper, ok := of.seen.(paperSeen)
	if !ok {
		return nil, nil
	}
	f := NewFilter()
	f.Merge(paper.Filter)
	f.bits.count = paper.bits.count
	return f, nil
}

// Stats are the sizes and error rates of Sets.
type Stats struct {
	Sets          int     // in memory
	Hashes        int     // in them
	Bytes         int     // approximate
	Loads         uint64  // sets loaded since the start
	Evictions     uint64  // sets evicted for lack of memory
	FalsePositive float64 // expected fraction of new hashes not answered No, mean over the sets weighted by size
	ExpectedLoss  float64 // of Paper sets: expected fraction of URLs never crawled, weighted likewise; zero otherwise
}

// Stats iterates over all sets in memory.
func (s *Sets) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	stats := Stats{Sets: len(s.sets), Bytes: s.bytes, Loads: s.loads, Evictions: s.evictions}
	for e := s.recent.Front(); e != nil; e = e.Next() {
		of := e.Value.(*set).seen
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

// get returns a set, loads it if necessary, and evicts others. The mutex is held on return, and
// released while a set is read.
func (s *Sets) get(id SetID) (*set, error) {
	for {
		if e, ok := s.sets[id]; ok {
			s.recent.MoveToFront(e)
			return e.Value.(*set), nil
		}
		l := s.loading[id]
		if l == nil {
			l = s.load(id)
		} else {
			s.mu.Unlock()
			<-l.done
			s.mu.Lock()
		}
		if l.err != nil {
			return nil, fmt.Errorf("load seen URLs of set %x: %w", id[:4], l.err)
		}
	}
}

// load reads a set, and keeps it unless it was dropped meanwhile.
func (s *Sets) load(id SetID) *loading {
	l := &loading{done: make(chan struct{})}
	s.loading[id] = l
	s.mu.Unlock()
	of := &set{id: id, seen: s.empty()}
	l.err = s.loader.Hashes(id, func(hash uint64) bool {
		of.seen = of.seen.add(hash)
		return true
	})
	s.mu.Lock()
	delete(s.loading, id)
	close(l.done)
	if l.err == nil && !l.stale {
		s.loads++
		s.sets[id] = s.recent.PushFront(of)
		s.resize(of)
		s.evict()
	}
	return l
}

func (s *Sets) empty() seen {
	if s.kind == Paper {
		return paperSeen{NewFilter()}
	}
	return exactSeen(nil)
}

func (s *Sets) resize(of *set) {
	size := of.seen.bytes() + overhead
	s.bytes += size - of.size
	of.size = size
}

// evict removes sets from the back, but never the front one, which is in use.
func (s *Sets) evict() {
	for s.bytes > s.maxBytes && s.recent.Len() > 1 {
		s.remove(s.recent.Back())
		s.evictions++
	}
}

func (s *Sets) remove(e *list.Element) {
	of := s.recent.Remove(e).(*set)
	delete(s.sets, of.id)
	s.bytes -= of.size
}

// exactSeen is a sorted list of hashes.
type exactSeen []uint64

func (x exactSeen) test(hash uint64) Answer {
	if _, found := slices.BinarySearch(x, hash); found {
		return Yes
	}
	return No
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

func (l layeredSeen) test(hash uint64) Answer {
	if l.layers.test(hash) {
		return Maybe
	}
	return No
}

func (l layeredSeen) add(hash uint64) seen {
	l.layers.add(hash)
	return l
}

// paperSeen is the paper's filter alone.
type paperSeen struct{ *Filter }

func (p paperSeen) test(hash uint64) Answer {
	if p.Filter.Test(hash) {
		return Yes
	}
	return No
}

func (p paperSeen) add(hash uint64) seen {
	p.Filter.Add(hash)
	return p
}

func (p paperSeen) bytes() int             { return p.bits.bytes() }
func (p paperSeen) falsePositive() float64 { return p.Filter.FalsePositive() }
func (p paperSeen) len() int               { return p.Len() }
