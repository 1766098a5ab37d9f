package ipmicra

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/dht/ring"
)

// Limits of a record. A merge omits what exceeds them, so an untrusted peer cannot grow a record.
const (
	// MaxPeer is the length in bytes of a peer's ID.
	MaxPeer = 64
	// MaxProbes of one subnet: as many as the largest leaf set and some former members.
	MaxProbes = 64
	// MaxEntries of one index. Omitted ranges are farther away; a search needs each worker once.
	MaxEntries = 4096
)

// Kind is the kind of a record.
type Kind uint8

// The kinds.
const (
	KindSubnet       Kind = 1 // a [Subnet]
	KindChildren     Kind = 2 // an [Index] of the ranges directly below a range
	KindOrganisation Kind = 3 // an [Index] of the delegated ranges of an organization
)

// Key identifies a record.
type Key struct {
	Kind         Kind         // of record
	Prefix       netip.Prefix // of a subnet or of the parent of children; the zero Prefix is the root
	Organisation string       // of KindOrganisation, else empty
}

// Ring returns the record's position on the ring (papers 2.5). A subnet and its children have the
// same position, since most requests need both.
func (k Key) Ring() ring.Key {
	if k.Kind == KindOrganisation {
		return ring.KeyOf([]byte("/apoidea/organisation/" + k.Organisation))
	}
	name := "" // the root
	if k.Prefix.IsValid() {
		name = k.Prefix.String()
	}
	return ring.KeyOf([]byte("/apoidea/subnet/" + name))
}

// Epoch orders the delegations of one subnet: the higher counter wins, and with equal counters the
// higher peer ID.
type Epoch struct {
	Counter uint64 // increases with each delegation
	Peer    string // that delegated
}

// Compare returns -1, 0 or +1.
func (e Epoch) Compare(other Epoch) int {
	return cmp.Or(cmp.Compare(e.Counter, other.Counter), cmp.Compare(e.Peer, other.Peer))
}

// Probe is a peer's measurement of a subnet. Failures are not stored: they depend on the moment
// more than on the path.
type Probe struct {
	RTT time.Duration // whole microseconds
	At  time.Time     // whole milliseconds
}

func (p Probe) compare(other Probe) int {
	return cmp.Or(p.At.Compare(other.At), cmp.Compare(p.RTT, other.RTT))
}

// Subnet is the record of a range: its delegation and its measurements.
type Subnet struct {
	Prefix netip.Prefix // the range
	Epoch  Epoch        // of the delegation
	// Worker under this epoch; empty when the subnet must be delegated again.
	Worker string
	// Organisation of the range in the data of the delegating peer.
	Organisation string
	// Since is when a new delegation was requested: earlier probes are invalid. Whole milliseconds,
	// zero if that never was.
	Since time.Time
	// Probes by peer.
	Probes map[string]Probe
}

// Key returns the key of the record.
func (s *Subnet) Key() Key { return Key{Kind: KindSubnet, Prefix: s.Prefix} }

// NextBest returns the candidate with the smallest probe after the worker's, without overloaded
// ones; "" if none has a probe.
func (s *Subnet) NextBest(candidates []placement.Candidate) string {
	best := ""
	for i := range candidates {
		c := &candidates[i]
		p, ok := s.Probes[c.Peer]
		if ok && c.Peer != s.Worker && !c.Overloaded() && !p.At.Before(s.Since) && (best == "" || p.RTT < s.Probes[best].RTT) {
			best = c.Peer
		}
	}
	return best
}

// compare orders the fields that belong to an epoch. Two that differ under one epoch are forged;
// they need an order all the same.
func (s *Subnet) compare(other *Subnet) int {
	return cmp.Or(s.Epoch.Compare(other.Epoch), cmp.Compare(s.Worker, other.Worker), cmp.Compare(s.Organisation, other.Organisation), s.Since.Compare(other.Since))
}

// Merge merges another record of the same range: the higher epoch, the union of the probes, the
// newest of each peer. It is commutative, associative and idempotent. It reports whether anything
// changed.
func (s *Subnet) Merge(other *Subnet) bool {
	changed := false
	if other.compare(s) > 0 {
		s.Epoch, s.Worker, s.Organisation, s.Since = other.Epoch, other.Worker, other.Organisation, other.Since
		changed = true
	}
	var before map[string]Probe // set if some may have to be removed
	if len(s.Probes)+len(other.Probes) > MaxProbes {
		before = maps.Clone(s.Probes)
	}
	learnt := false
	for peer, p := range other.Probes {
		if old, ok := s.Probes[peer]; ok && p.compare(old) <= 0 {
			continue
		}
		if s.Probes == nil {
			s.Probes = make(map[string]Probe)
		}
		s.Probes[peer] = p
		learnt = true
	}
	if len(s.Probes) > MaxProbes {
		// The newest remain, by a total order, so that the order of merging does not matter.
		peers := slices.SortedFunc(maps.Keys(s.Probes), func(a, b string) int {
			return cmp.Or(s.Probes[b].compare(s.Probes[a]), cmp.Compare(b, a))
		})
		for _, peer := range peers[MaxProbes:] {
			delete(s.Probes, peer)
		}
		learnt = !maps.Equal(s.Probes, before)
	}
	return changed || learnt
}

// Entry is a range in an index.
type Entry struct {
	Prefix netip.Prefix // the range
	Epoch  Epoch        // its delegation
	// Worker of the range; empty if it is not delegated.
	Worker string
	// Below reports that ranges below it are delegated. It is never cleared.
	Below bool
}

// Index lists ranges: the children of a range that are delegated or have delegated descendants, or
// the delegated ranges of an organization.
type Index struct {
	Key     Key     // of KindChildren or KindOrganisation
	Entries []Entry // in the order of their prefixes
}

func byPrefix(e Entry, p netip.Prefix) int { return e.Prefix.Compare(p) }

// Find returns the entry of a range.
func (x *Index) Find(p netip.Prefix) (Entry, bool) {
	i, ok := slices.BinarySearchFunc(x.Entries, p, byPrefix)
	if !ok {
		return Entry{}, false
	}
	return x.Entries[i], true
}

// Merge merges another index of the same key: of each range the higher epoch. It is commutative,
// associative and idempotent. It reports whether anything changed.
func (x *Index) Merge(other *Index) bool {
	changed := false
	var before []Entry // set if some may have to be removed
	if len(x.Entries)+len(other.Entries) > MaxEntries {
		before = slices.Clone(x.Entries)
	}
	for _, e := range other.Entries {
		i, ok := slices.BinarySearchFunc(x.Entries, e.Prefix, byPrefix)
		if !ok {
			x.Entries = slices.Insert(x.Entries, i, e)
			changed = true
			continue
		}
		old := &x.Entries[i]
		merged := *old
		if cmp.Or(e.Epoch.Compare(old.Epoch), cmp.Compare(e.Worker, old.Worker)) > 0 {
			merged.Epoch, merged.Worker = e.Epoch, e.Worker
		}
		merged.Below = old.Below || e.Below
		changed = changed || merged != *old
		*old = merged
	}
	if len(x.Entries) > MaxEntries {
		x.clip()
		changed = !slices.Equal(x.Entries, before)
	}
	return changed
}

// clip retains MaxEntries, selected by a hash of their prefixes: independent of the order of
// merging, and a fair sample of the ranges.
func (x *Index) clip() {
	ranked := slices.SortedFunc(slices.Values(x.Entries), func(a, b Entry) int {
		return cmp.Or(cmp.Compare(rank(a.Prefix), rank(b.Prefix)), a.Prefix.Compare(b.Prefix))
	})
	x.Entries = ranked[:MaxEntries:MaxEntries]
	slices.SortFunc(x.Entries, func(a, b Entry) int { return a.Prefix.Compare(b.Prefix) })
}

func rank(p netip.Prefix) uint64 {
	h := fnv.New64a()
	a := p.Addr().As16()
	h.Write(a[:])
	h.Write([]byte{byte(p.Bits())})
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// aheadMost bounds the clock differences of peers: records with later times are rejected.
const aheadMost = time.Hour

// Check rejects changes with times in the future: an epoch that counts more delegations than one
// for each second since 1970, and future timestamps. Such a record would take precedence over all
// later ones, for ever if its counter were the maximum; so it can be ahead by an hour at most. The
// bound depends on the time alone, and not on the present record, so merging stays independent of
// order; and an accepted record remains acceptable, so records can be handed off. The error is
// [ErrRecord].
func (c *Changes) Check(now time.Time) error {
	for _, s := range c.Subnets {
		if err := s.Check(now); err != nil {
			return err
		}
	}
	for _, x := range c.Indexes {
		if err := x.Check(now); err != nil {
			return err
		}
	}
	return nil
}

// Check rejects a record with times in the future: see [Changes.Check].
func (s *Subnet) Check(now time.Time) error {
	last := now.Add(aheadMost)
	if err := s.Epoch.check(last); err != nil {
		return fmt.Errorf("%w: subnet %v: %w", ErrRecord, s.Prefix, err)
	}
	if s.Since.After(last) {
		return fmt.Errorf("%w: subnet %v: Since %v is in the future", ErrRecord, s.Prefix, s.Since)
	}
	for peer, p := range s.Probes {
		if p.At.After(last) {
			return fmt.Errorf("%w: subnet %v: probe by %.20x at %v, in the future", ErrRecord, s.Prefix, peer, p.At)
		}
	}
	return nil
}

// Check rejects an index with an entry from the future: see [Changes.Check].
func (x *Index) Check(now time.Time) error {
	for i := range x.Entries {
		if err := x.Entries[i].Epoch.check(now.Add(aheadMost)); err != nil {
			return fmt.Errorf("%w: index entry %v: %w", ErrRecord, x.Entries[i].Prefix, err)
		}
	}
	return nil
}

func (e *Epoch) check(last time.Time) error {
	if most := uint64(max(last.Unix(), 1)); e.Counter > most { // not negative
		return fmt.Errorf("epoch %d, want at most %d", e.Counter, most)
	}
	return nil
}

// Knowledge are the records available to a search. A returned record is valid until the next call,
// and never modified.
type Knowledge interface {
	// Subnet returns the record of a range: nil and true if there is none, false if it must be
	// requested first.
	Subnet(p netip.Prefix) (*Subnet, bool)
	// Index returns the index of a key, in the same way.
	Index(k Key) (*Index, bool)
}

// Changes are the additions of a step to records. Each is merged into the record of its key,
// wherever that is stored; in any order, and repeatedly if necessary.
type Changes struct {
	Subnets []*Subnet // records of ranges
	Indexes []*Index  // entries to be added to lists
}

// Memory holds all records in one place: the coordinator's of the paper, or one that the crawlers
// of an experiment share. Not safe for concurrent use.
type Memory struct {
	subnets map[netip.Prefix]*Subnet
	indexes map[Key]*Index
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{subnets: make(map[netip.Prefix]*Subnet), indexes: make(map[Key]*Index)}
}

// Subnet implements [Knowledge]: all records are available.
func (m *Memory) Subnet(p netip.Prefix) (*Subnet, bool) { return m.subnets[p], true }

// Index implements [Knowledge]: all records are available.
func (m *Memory) Index(k Key) (*Index, bool) { return m.indexes[k], true }

// Merge merges changes.
func (m *Memory) Merge(c Changes) {
	for _, s := range c.Subnets {
		old := m.subnets[s.Prefix]
		if old == nil {
			old = &Subnet{Prefix: s.Prefix}
			m.subnets[s.Prefix] = old
		}
		old.Merge(s)
	}
	for _, x := range c.Indexes {
		old := m.indexes[x.Key]
		if old == nil {
			old = &Index{Key: x.Key}
			m.indexes[x.Key] = old
		}
		old.Merge(x)
	}
}

// Subnets iterates over the records in the order of their ranges.
func (m *Memory) Subnets() iter.Seq[*Subnet] {
	return func(yield func(*Subnet) bool) {
		for _, p := range slices.SortedFunc(maps.Keys(m.subnets), netip.Prefix.Compare) {
			if !yield(m.subnets[p]) {
				return
			}
		}
	}
}
