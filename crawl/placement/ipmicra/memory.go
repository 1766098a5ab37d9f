package ipmicra

import (
	"iter"
	"maps"
	"net/netip"
	"slices"
)

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
