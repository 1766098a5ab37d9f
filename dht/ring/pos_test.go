package ring

import (
	"bytes"
	"testing"
)

// TestPos: positions are in the order of keys, and Next leaves none out.
func TestPos(t *testing.T) {
	key := KeyOf([]byte("a"))
	pos := PosOf(key)
	if got := pos.Key(); PosOf(got) != pos || got.Compare(key) > 0 || pos.Next().Key().Compare(key) <= 0 {
		t.Errorf("%x is cut down to %x", key, pos)
	}
	for _, row := range []struct{ pos, next Pos }{
		{Pos{}, Pos{15: 1}},
		{Pos{14: 1, 15: 0xff}, Pos{14: 2}},
		{Pos(bytes.Repeat([]byte{0xff}, PosSize)), Pos{}},
	} {
		if got := row.pos.Next(); got != row.next {
			t.Errorf("behind %x: %x", row.pos, got)
		}
	}
}

// TestBounds: a range of positions has the records at its first one, and not those at its last; the
// end of the circle has all of them.
func TestBounds(t *testing.T) {
	lo, hi, last := Pos{1}, Pos{2}, Pos(bytes.Repeat([]byte{0xff}, PosSize))
	for _, row := range []struct {
		name   string
		lo, hi Pos
		at     Pos
		want   bool
	}{
		{"the first", lo, hi, lo, true},
		{"in between", lo, hi, Pos{1, 5}, true},
		{"the end", lo, hi, hi, false},
		{"before", hi, Pos{}, lo, false},
		{"the end of the circle", hi, Pos{}, last, true},
	} {
		from, to := Bounds(row.lo, row.hi)
		record := append(row.at[:], bytes.Repeat([]byte{0xff}, KeySize)...)
		if got := bytes.Compare(record, from) >= 0 && bytes.Compare(record, to) < 0; got != row.want {
			t.Errorf("%s: %v", row.name, got)
		}
	}
}
