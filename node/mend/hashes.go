package mend

import (
	"hash/maphash"
	"slices"
)

// hashes are a set of what is too much to be kept: eight bytes each, of a seed that nobody knows.
type hashes struct {
	list   []uint64
	sorted bool
}

var seed = maphash.MakeSeed()

func hashOf(parts ...string) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	for _, p := range parts {
		_, _ = h.WriteString(p)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

func (h *hashes) add(n uint64) { h.list, h.sorted = append(h.list, n), false }

func (h *hashes) has(n uint64) bool {
	if !h.sorted {
		slices.Sort(h.list)
		h.list, h.sorted = slices.Compact(h.list), true
	}
	_, ok := slices.BinarySearch(h.list, n)
	return ok
}
