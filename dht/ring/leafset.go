package ring

import "slices"

// DefaultR is the number of leaf peers on each side (l/2 of Apoidea 3.1).
const DefaultR = 8

// LeafSet is the nearest peers of self on both sides of the circle, by position, nearest first. In
// a ring of few peers a peer is at once a predecessor and a successor. It holds positions only; who
// stands there is for its user to remember.
type LeafSet struct {
	self         Key
	r            int
	preds, succs []Key
}

// NewLeafSet returns the leaf set of a lone peer, with room for r peers a side.
func NewLeafSet(self Key, r int) *LeafSet {
	return &LeafSet{self: self, r: max(1, r), preds: make([]Key, 0, r+1), succs: make([]Key, 0, r+1)}
}

// Clone returns an independent copy.
func (s *LeafSet) Clone() *LeafSet {
	return &LeafSet{self: s.self, r: s.r, preds: slices.Clone(s.preds), succs: slices.Clone(s.succs)}
}

// Len is the number of distinct leaf peers.
func (s *LeafSet) Len() int { return len(s.Members()) }

// Predecessors returns the peers before self, nearest first. The slice is the caller's.
func (s *LeafSet) Predecessors() []Key { return slices.Clone(s.preds) }

// Successors returns the peers after self, nearest first. The slice is the caller's.
func (s *LeafSet) Successors() []Key { return slices.Clone(s.succs) }

// Predecessor is the nearest peer before self; a lone peer is its own.
func (s *LeafSet) Predecessor() Key {
	if len(s.preds) == 0 {
		return s.self
	}
	return s.preds[0]
}

// Successor is the nearest peer after self; a lone peer is its own.
func (s *LeafSet) Successor() Key {
	if len(s.succs) == 0 {
		return s.self
	}
	return s.succs[0]
}

// Arc is what self owns as far as it knows: (predecessor, self].
func (s *LeafSet) Arc() Arc { return Arc{Start: s.Predecessor(), End: s.self} }

// Contains says whether a peer at key is in the leaf set.
func (s *LeafSet) Contains(key Key) bool {
	return slices.Contains(s.succs, key) || slices.Contains(s.preds, key)
}

// Fits says whether a peer at key is not in the leaf set and would be after Insert.
func (s *LeafSet) Fits(key Key) bool {
	if key == s.self || s.Contains(key) {
		return false
	}
	if len(s.succs) < s.r || len(s.preds) < s.r {
		return true
	}
	return s.after(key).Compare(s.after(s.succs[s.r-1])) < 0 || s.before(key).Compare(s.before(s.preds[s.r-1])) < 0
}

// Insert adds the peer at key where it belongs and reports whether the leaf set changed; peers
// pushed out are gone.
func (s *LeafSet) Insert(key Key) bool {
	if key == s.self {
		return false
	}
	var after, before bool
	s.succs, after = insertNearest(s.succs, key, s.r, s.after)
	s.preds, before = insertNearest(s.preds, key, s.r, s.before)
	return after || before
}

// Remove takes the peer at key out of both sides and reports whether it was there.
func (s *LeafSet) Remove(key Key) bool {
	size, members, whole := len(s.succs)+len(s.preds), s.Members(), s.Whole()
	same := func(k Key) bool { return k == key }
	s.succs = slices.DeleteFunc(s.succs, same)
	s.preds = slices.DeleteFunc(s.preds, same)
	removed := len(s.succs)+len(s.preds) != size
	// Who stood on one side only moves up on the other where that is known to be right, or better
	// than nobody.
	if whole || len(s.succs) == 0 || len(s.preds) == 0 {
		for _, k := range members {
			if k != key {
				s.Insert(k)
			}
		}
	}
	return removed
}

// Members returns every distinct leaf peer in clockwise order from self, self left out.
func (s *LeafSet) Members() []Key {
	members := slices.Clone(s.succs)
	for _, key := range slices.Backward(s.preds) {
		if !slices.Contains(s.succs, key) {
			members = append(members, key)
		}
	}
	return members
}

// Whole says whether the two sides meet on the far side of the circle, so that the leaf set is all
// of the ring. With exactly 2r others they only touch, which looks like a larger ring.
func (s *LeafSet) Whole() bool {
	return len(s.succs) == 0 || slices.Contains(s.preds, s.succs[len(s.succs)-1])
}

// Estimate is the number of peers in the ring, self included: counted when the leaf set is all of
// it, otherwise guessed from how densely the leaf peers stand.
func (s *LeafSet) Estimate() int {
	members := s.Len()
	if s.Whole() {
		return members + 1
	}
	span := Arc{Start: s.preds[len(s.preds)-1], End: s.succs[len(s.succs)-1]}.Fraction()
	return max(members+1, int(float64(members)/span+0.5))
}

// Covers says whether the owner of key is known from the leaf set alone.
func (s *LeafSet) Covers(key Key) bool {
	return s.Whole() || Between(s.preds[len(s.preds)-1], key, s.succs[len(s.succs)-1])
}

// Owner returns the arc of the owner of key, which ends at the owner's position; false when the
// leaf set does not cover key.
func (s *LeafSet) Owner(key Key) (Arc, bool) {
	arc := Arc{Start: s.self}
	for _, arc.End = range s.succs {
		if Between(arc.Start, key, arc.End) {
			return arc, true
		}
		arc.Start = arc.End
	}
	arc = Arc{End: s.self}
	for _, arc.Start = range s.preds {
		if Between(arc.Start, key, arc.End) {
			return arc, true
		}
		arc.End = arc.Start
	}
	if len(s.succs) == 0 {
		return s.Arc(), true
	}
	return Arc{}, false
}

func (s *LeafSet) after(key Key) Key  { return key.Sub(s.self) }
func (s *LeafSet) before(key Key) Key { return s.self.Sub(key) }

// insertNearest puts key into list, which is ordered by distance and keeps at most r.
func insertNearest(list []Key, key Key, r int, distance func(Key) Key) ([]Key, bool) {
	at, found := slices.BinarySearchFunc(list, distance(key), func(k, d Key) int { return distance(k).Compare(d) })
	if found || at >= r {
		return list, false
	}
	list = slices.Insert(list, at, key)
	return list[:min(r, len(list))], true
}
