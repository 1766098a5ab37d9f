package ring

import (
	"bytes"
	"math"
)

// PosSize is how much of a key begins the key of a record on disk.
const PosSize = 16

// Pos is a key cut down to what records on disk hold of it, so that an arc of the ring is one range
// of records. What lies at one position moves as one.
type Pos [PosSize]byte

// PosOf cuts a key down.
func PosOf(key Key) Pos { return Pos(key[:PosSize]) }

// Key is the position on the circle, as far as it is known.
func (p Pos) Key() (key Key) {
	copy(key[:], p[:])
	return key
}

// Next is the position behind p; zero behind the last.
func (p Pos) Next() Pos {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i]++; p[i] != 0 {
			break
		}
	}
	return p
}

// behind is greater than the key of any record.
var behind = bytes.Repeat([]byte{math.MaxUint8}, 2*KeySize)

// Bounds are the keys of the records at positions in [lo, hi), from included and to not; a zero hi
// is the end of the circle.
func Bounds(lo, hi Pos) (from, to []byte) {
	if hi == (Pos{}) {
		return lo[:], behind
	}
	return lo[:], hi[:]
}
