package ring

// Arc is the part (Start, End] of the circle, clockwise. If Start equals End it is the whole
// circle, which a lone peer owns. An arc is never empty; a separate bool represents "owns nothing".
type Arc struct {
	Start Key // excluded, unless the arc is the whole circle
	End   Key // included
}

// Contains reports whether key is in (Start, End].
func (a Arc) Contains(key Key) bool {
	if a.Start == a.End {
		return true
	}
	return Between(a.Start, key, a.End)
}

// Whole reports whether the arc is the whole circle.
func (a Arc) Whole() bool { return a.Start == a.End }

// Size returns the number of keys in the arc, modulo 2^256: zero for the whole circle.
func (a Arc) Size() Key { return a.End.Sub(a.Start) }

// Fraction returns the share of the circle, in (0, 1].
func (a Arc) Fraction() float64 {
	if a.Whole() {
		return 1
	}
	return a.Size().Turns()
}

// Holds reports whether every key of b is in a.
func (a Arc) Holds(b Arc) bool {
	if a.Whole() {
		return true
	}
	return !b.Whole() && a.Contains(b.End) && b.Size().Compare(b.End.Sub(a.Start)) <= 0
}

// String returns "(start, end]" in short hex.
func (a Arc) String() string { return "(" + a.Start.String() + ", " + a.End.String() + "]" }

// Between reports whether key is in (start, end], clockwise. If start equals end only that point
// is; for the whole circle use Arc.Contains.
func Between(start, key, end Key) bool {
	if start == end {
		return key == end
	}
	if start.Compare(end) < 0 {
		return start.Compare(key) < 0 && key.Compare(end) <= 0
	}
	return start.Compare(key) < 0 || key.Compare(end) <= 0
}
