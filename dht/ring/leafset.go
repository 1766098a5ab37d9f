package ring

import "slices"

// DefaultR is the number of leaf peers on each side (l/2 of Apoidea 3.1).
const DefaultR = 8

// LeafSet holds the positions of the nearest peers on both sides of self, nearest first. In a small
// ring a peer is both a predecessor and a successor. The caller maps positions to peers.
type LeafSet struct {
	self         Key
	r            int
	preds, succs []Key
}

// NewLeafSet returns the leaf set of a lone peer, for r peers a side.
func NewLeafSet(self Key, r int) *LeafSet {
	return &LeafSet{self: self, r: max(1, r), preds: make([]Key, 0, r+1), succs: make([]Key, 0, r+1)}
}

// Clone returns an independent copy.
func (s *LeafSet) Clone() *LeafSet {
	return &LeafSet{self: s.self, r: s.r, preds: slices.Clone(s.preds), succs: slices.Clone(s.succs)}
}

// Len returns the number of distinct leaf peers.
func (s *LeafSet) Len() int { return len(s.Members()) }

// Predecessors returns the peers before self, nearest first. The caller owns the slice.
func (s *LeafSet) Predecessors() []Key { return slices.Clone(s.preds) }

// Successors returns the peers after self, nearest first. The caller owns the slice.
func (s *LeafSet) Successors() []Key { return slices.Clone(s.succs) }

// Predecessor returns the nearest peer before self; a lone peer is its own.
func (s *LeafSet) Predecessor() Key {
	if len(s.preds) == 0 {
		return s.self
	}
	return s.preds[0]
}

// Successor returns the nearest peer after self; a lone peer is its own.
func (s *LeafSet) Successor() Key {
	if len(s.succs) == 0 {
		return s.self
	}
	return s.succs[0]
}

// Arc returns the arc that self owns by this leaf set: (predecessor, self].
func (s *LeafSet) Arc() Arc { return Arc{Start: s.Predecessor(), End: s.self} }

// Contains reports whether a peer at key is in the leaf set.
func (s *LeafSet) Contains(key Key) bool {
	return slices.Contains(s.succs, key) || slices.Contains(s.preds, key)
}

// Fits reports whether Insert would add a peer at key.
func (s *LeafSet) Fits(key Key) bool {
	if key == s.self || s.Contains(key) {
		return false
	}
	if len(s.succs) < s.r || len(s.preds) < s.r {
		return true
	}
	return s.after(key).Compare(s.after(s.succs[s.r-1])) < 0 || s.before(key).Compare(s.before(s.preds[s.r-1])) < 0
}

// Insert adds the peer at key if it belongs to the leaf set, and reports whether that changed;
// peers pushed out are removed.
func (s *LeafSet) Insert(key Key) bool {
	if key == s.self {
		return false
	}
	var after, before bool
	s.succs, after = insertNearest(s.succs, key, s.r, s.after)
	s.preds, before = insertNearest(s.preds, key, s.r, s.before)
	return after || before
}

// Remove removes the peer at key from both sides and reports whether it was there.
func (s *LeafSet) Remove(key Key) bool {
	size, members, whole := len(s.succs)+len(s.preds), s.Members(), s.Whole()
	same := func(k Key) bool { return k == key }
	s.succs = slices.DeleteFunc(s.succs, same)
	s.preds = slices.DeleteFunc(s.preds, same)
	removed := len(s.succs)+len(s.preds) != size
	// A peer of one side moves up on the other if that is known to be right, or the side is empty.
	if whole || len(s.succs) == 0 || len(s.preds) == 0 {
		for _, k := range members {
			if k != key {
				s.Insert(k)
			}
		}
	}
	return removed
}

// Members returns every distinct leaf peer clockwise from self, without self.
func (s *LeafSet) Members() []Key {
	members := slices.Clone(s.succs)
	for _, key := range slices.Backward(s.preds) {
		if !slices.Contains(s.succs, key) {
			members = append(members, key)
		}
	}
	return members
}

// Whole reports whether the two sides meet on the far side of the circle, so that the leaf set is
// the whole ring. With exactly 2r others they only touch, as in a larger ring.
func (s *LeafSet) Whole() bool {
	return len(s.succs) == 0 || slices.Contains(s.preds, s.succs[len(s.succs)-1])
}

// Estimate returns the number of peers in the ring, including self: exact if the leaf set is the
// whole ring, otherwise estimated from the density of the leaf peers.
func (s *LeafSet) Estimate() int {
	members := s.Len()
	if s.Whole() {
		return members + 1
	}
	span := Arc{Start: s.preds[len(s.preds)-1], End: s.succs[len(s.succs)-1]}.Fraction()
	return max(members+1, int(float64(members)/span+0.5))
}

// Covers reports whether the leaf set alone determines the owner of key.
func (s *LeafSet) Covers(key Key) bool {
	return s.Whole() || Between(s.preds[len(s.preds)-1], key, s.succs[len(s.succs)-1])
}

// Owner returns the arc of the owner of key, which ends at the owner's position; false if the leaf
// set does not cover key.
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

// insertNearest inserts key into list, which is ordered by distance and holds at most r keys.
func insertNearest(list []Key, key Key, r int, distance func(Key) Key) ([]Key, bool) {
	at, found := slices.BinarySearchFunc(list, distance(key), func(k, d Key) int { return distance(k).Compare(d) })
	if found || at >= r {
		return list, false
	}
	list = slices.Insert(list, at, key)
	return list[:min(r, len(list))], true
}
