package ring

import (
	"bytes"
	"math"
)

// PosSize is the length in bytes of the key prefix in the keys of records on disk.
const PosSize = 16

// Pos is a key truncated to the prefix of records on disk, so that an arc of the ring is one range
// of records. Records at one position move together.
type Pos [PosSize]byte

// PosOf truncates a key.
func PosOf(key Key) Pos { return Pos(key[:PosSize]) }

// Key returns the position as a key, with zero bytes at the end.
func (p Pos) Key() (key Key) {
	copy(key[:], p[:])
	return key
}

// Next returns the position after p; zero after the last.
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

// Bounds returns the range [from, to) of record keys at positions in [lo, hi); a zero hi is the end
// of the circle.
func Bounds(lo, hi Pos) (from, to []byte) {
	if hi == (Pos{}) {
		return lo[:], behind
	}
	return lo[:], hi[:]
}
