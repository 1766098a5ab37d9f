package ipmicra

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
)

// Knowledge is the records that a search can see. What it returns is read before it is asked again,
// and never changed.
type Knowledge interface {
	// Subnet returns the record of a range: nil and true where it is known that there is none,
	// false where it must be asked for first.
	Subnet(p netip.Prefix) (*Subnet, bool)
	// Index returns the index of a key, likewise.
	Index(k Key) (*Index, bool)
}

// Changes are what a step adds to records. Each is to be merged into the record of its key,
// wherever that lies; in any order, more than once if need be.
type Changes struct {
	Subnets []*Subnet // records of ranges
	Indexes []*Index  // entries to be added to lists
}

// Memory is all records in one place: the coordinator's of the paper, or one that the crawlers of
// an experiment share. Not safe for concurrent use.
type Memory struct {
	subnets map[netip.Prefix]*Subnet
	indexes map[Key]*Index
}

// NewMemory returns an empty one.
func NewMemory() *Memory {
	return &Memory{subnets: make(map[netip.Prefix]*Subnet), indexes: make(map[Key]*Index)}
}

// Subnet implements [Knowledge]: everything is known.
func (m *Memory) Subnet(p netip.Prefix) (*Subnet, bool) { return m.subnets[p], true }

// Index implements [Knowledge]: everything is known.
func (m *Memory) Index(k Key) (*Index, bool) { return m.indexes[k], true }

// Merge takes changes in.
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

// Subnets are the records in the order of their ranges.
func (m *Memory) Subnets() iter.Seq[*Subnet] {
	return func(yield func(*Subnet) bool) {
		for _, p := range slices.SortedFunc(maps.Keys(m.subnets), netip.Prefix.Compare) {
			if !yield(m.subnets[p]) {
				return
			}
		}
	}
}
