package extract

import (
	"bytes"
	"hash/maphash"
)

// set numbers distinct byte strings in order of arrival. The keys are owned by the caller. The hash
// is seeded per process, so that no page can cause collisions.
type set struct {
	keys   [][]byte
	hashes []uint64
	slots  []uint32 // open addressing; number of a key plus one, or 0
}

var seed = maphash.MakeSeed()

// minSlots is sufficient for the links of nearly all pages and cheap to clear.
const minSlots = 1024

// add returns the key's number, and whether it is new.
func (s *set) add(key []byte) (number int, fresh bool) {
	if 2*len(s.keys) >= len(s.slots) {
		s.grow()
	}
	h := maphash.Bytes(seed, key)
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for ; s.slots[i] != 0; i = (i + 1) & mask {
		if n := s.slots[i] - 1; s.hashes[n] == h && bytes.Equal(s.keys[n], key) {
			return int(n), false
		}
	}
	s.keys, s.hashes = append(s.keys, key), append(s.hashes, h)
	s.slots[i] = uint32(len(s.keys))
	return len(s.keys) - 1, true
}

// has reports whether a key is in the set.
func (s *set) has(key []byte) bool {
	if len(s.slots) == 0 {
		return false
	}
	h := maphash.Bytes(seed, key)
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if n := s.slots[i] - 1; s.hashes[n] == h && bytes.Equal(s.keys[n], key) {
			return true
		}
	}
	return false
}

func (s *set) grow() {
	s.slots = make([]uint32, max(minSlots, 2*len(s.slots)))
	mask := uint64(len(s.slots) - 1)
	for n, h := range s.hashes {
		i := h & mask
		for ; s.slots[i] != 0; i = (i + 1) & mask {
		}
		s.slots[i] = uint32(n + 1)
	}
}

// reset empties the set, and frees the memory of an unusually large page.
func (s *set) reset() {
	if len(s.slots) > 16*minSlots {
		*s = set{}
		return
	}
	clear(s.keys) // do not retain the document
	clear(s.slots)
	s.keys, s.hashes = s.keys[:0], s.hashes[:0]
}
