package crawltest

import (
	"bytes"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/apoidea/apoidea/storage/kv"
)

// Store is an ordered store in memory, as [kv.Store] asks for. It remembers which updates were
// waited for, so a test can crash it. Not safe for concurrent use.
type Store struct {
	list    skipList
	base    map[string][]byte
	journal [][]change
	waited  int
	// Forgetful stores keep no journal, for benchmarks; they cannot crash.
	Forgetful bool
	// Fail, if set, is asked before every update and its error returned.
	Fail func() error
	// Gets and Scans count what was read, Updates the batches, Ranges what was deleted as a range.
	Gets, Scans, Updates, Ranges int
}

var _ kv.Store = (*Store)(nil)

type change struct {
	key, value []byte // value nil: deleted
	hi         []byte // of a deleted range
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{base: make(map[string][]byte)} }

// Get returns a copy of a value.
func (s *Store) Get(key []byte) (value []byte, ok bool, err error) {
	s.Gets++
	n := s.list.seek(key)
	if n == nil || !bytes.Equal(n.key, key) {
		return nil, false, nil
	}
	return bytes.Clone(n.value), true, nil
}

// Scan calls fn for the keys in [lo, hi).
func (s *Store) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	s.Scans++
	for n := s.list.seek(lo); n != nil && (hi == nil || bytes.Compare(n.key, hi) < 0); n = n.next[0] {
		if !fn(bytes.Clone(n.key), bytes.Clone(n.value)) {
			return nil
		}
	}
	return nil
}

type batch struct{ changes []change }

func (b *batch) Set(key, value []byte) {
	b.changes = append(b.changes, change{key: bytes.Clone(key), value: append([]byte{}, value...)})
}
func (b *batch) Delete(key []byte) { b.changes = append(b.changes, change{key: bytes.Clone(key)}) }
func (b *batch) DeleteRange(lo, hi []byte) {
	b.changes = append(b.changes, change{key: bytes.Clone(lo), hi: bytes.Clone(hi)})
}

// Update applies a batch. It is on disk, with all before it, when wait was called.
func (s *Store) Update(fn func(kv.Batch)) (wait func() error, err error) {
	if s.Fail != nil {
		if err := s.Fail(); err != nil {
			return nil, err
		}
	}
	var b batch
	fn(&b)
	s.Updates++
	s.apply(b.changes)
	if s.Forgetful {
		return func() error { return nil }, nil
	}
	s.journal = append(s.journal, b.changes)
	n := len(s.journal)
	return func() error {
		s.waited = max(s.waited, n)
		return nil
	}, nil
}

func (s *Store) apply(changes []change) {
	for _, c := range changes {
		switch {
		case c.hi != nil:
			s.Ranges++
			for n := s.list.seek(c.key); n != nil && bytes.Compare(n.key, c.hi) < 0; n = s.list.seek(c.key) {
				s.list.delete(n.key)
			}
		case c.value == nil:
			s.list.delete(c.key)
		default:
			s.list.set(c.key, c.value)
		}
	}
}

// Crash returns what is found at the next start: everything that was waited for, and of the updates
// after that the first ones, as many as rng says.
func (s *Store) Crash(rng *rand.Rand) *Store {
	kept := s.waited + rng.IntN(len(s.journal)-s.waited+1)
	next := NewStore()
	for _, key := range slices.Sorted(maps.Keys(s.base)) {
		next.list.set([]byte(key), s.base[key])
	}
	for _, changes := range s.journal[:kept] {
		next.apply(changes)
	}
	for n := next.list.first(); n != nil; n = n.next[0] {
		next.base[string(n.key)] = n.value
	}
	return next
}

// Len is the number of keys, and Bytes the size of keys and values.
func (s *Store) Len() int { return s.list.size }

// Bytes is the size of all keys and values.
func (s *Store) Bytes() (sum int) {
	for n := s.list.first(); n != nil; n = n.next[0] {
		sum += len(n.key) + len(n.value)
	}
	return sum
}

const maxLevel = 20

type node struct {
	key, value []byte
	next       []*node
}

// skipList is Pugh's: sorted, with O(log n) of everything.
type skipList struct {
	head  node
	size  int
	coins uint64
}

func (l *skipList) init() {
	if l.head.next == nil {
		l.head.next = make([]*node, maxLevel)
	}
}

func (l *skipList) first() *node {
	l.init()
	return l.head.next[0]
}

// path fills in the last node before key on each level.
func (l *skipList) path(key []byte, before *[maxLevel]*node) {
	l.init()
	n := &l.head
	for level := maxLevel - 1; level >= 0; level-- {
		for n.next[level] != nil && bytes.Compare(n.next[level].key, key) < 0 {
			n = n.next[level]
		}
		before[level] = n
	}
}

// seek returns the first node at or behind key.
func (l *skipList) seek(key []byte) *node {
	var before [maxLevel]*node
	l.path(key, &before)
	return before[0].next[0]
}

func (l *skipList) set(key, value []byte) {
	var before [maxLevel]*node
	l.path(key, &before)
	if n := before[0].next[0]; n != nil && bytes.Equal(n.key, key) {
		n.value = value
		return
	}
	height := 1
	for l.coins = l.coins*6364136223846793005 + 1442695040888963407; height < maxLevel && l.coins>>(33+height)&1 == 1; {
		height++
	}
	n := &node{key: key, value: value, next: make([]*node, height)}
	for level := range height {
		n.next[level], before[level].next[level] = before[level].next[level], n
	}
	l.size++
}

func (l *skipList) delete(key []byte) {
	var before [maxLevel]*node
	l.path(key, &before)
	n := before[0].next[0]
	if n == nil || !bytes.Equal(n.key, key) {
		return
	}
	for level := range n.next {
		before[level].next[level] = n.next[level]
	}
	l.size--
}
