package ring

// Arc is the part of the circle in (Start, End], clockwise. When Start equals End it is the whole
// circle, which is what a lone peer owns; an arc is never empty, so "owns nothing" is said by a
// bool beside it.
type Arc struct {
	Start Key // not in it, but where it is the whole circle
	End   Key // in it
}

// Contains says whether key lies in (Start, End].
func (a Arc) Contains(key Key) bool {
	if a.Start == a.End {
		return true
	}
	return Between(a.Start, key, a.End)
}

// Whole says whether the arc is the whole circle.
func (a Arc) Whole() bool { return a.Start == a.End }

// Size is the number of keys in the arc, modulo 2^256: zero for the whole circle.
func (a Arc) Size() Key { return a.End.Sub(a.Start) }

// Fraction is the share of the circle, in (0, 1].
func (a Arc) Fraction() float64 {
	if a.Whole() {
		return 1
	}
	return a.Size().Turns()
}

// Overlaps says whether some key lies in both arcs.
func (a Arc) Overlaps(b Arc) bool { return a.Contains(b.End) || b.Contains(a.End) }

// Holds says whether every key of b lies in a.
func (a Arc) Holds(b Arc) bool {
	if a.Whole() {
		return true
	}
	return !b.Whole() && a.Contains(b.End) && b.Size().Compare(b.End.Sub(a.Start)) <= 0
}

// String is "(start, end]" in short hex.
func (a Arc) String() string { return "(" + a.Start.String() + ", " + a.End.String() + "]" }

// Between says whether key is met when walking clockwise from start (left out) to end (included).
// When start equals end only that one point counts; for the whole circle ask Arc.Contains.
func Between(start, key, end Key) bool {
	if start == end {
		return key == end
	}
	if start.Compare(end) < 0 {
		return start.Compare(key) < 0 && key.Compare(end) <= 0
	}
	return start.Compare(key) < 0 || key.Compare(end) <= 0
}
