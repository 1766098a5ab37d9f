// Package ring implements the arithmetic of the ring: keys, arcs, leaf sets, cached arcs and the
// choice of a position.
//
// A *key* is a point on a circle of 2^256 points; peers, hosts, bodies and jobs each hash to one.
// An *arc* is a part of the circle, and the *owner* of a key is its *successor*: the first peer
// clockwise from the key, inclusive (Apoidea 2.2: peer A owns the keys in (predecessor, A]). A
// *leaf set* is the nearest peers on both sides of a peer.
//
// All types are plain values without goroutines, clocks or I/O. LeafSet and ArcCache are not safe
// for concurrent use.
package ring

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/bits"
)

// KeySize is the length of a key in bytes.
const KeySize = sha256.Size

// Key is a point on the circle, big-endian. Keys are comparable; the zero Key is valid.
type Key [KeySize]byte

// KeyOf hashes data to its key.
func KeyOf(data []byte) Key { return sha256.Sum256(data) }

// HostKey returns the position of a host (canonical: lower case, punycode, its port only if it is
// not the scheme's default).
func HostKey(host string) Key { return KeyOf([]byte("/apoidea/host/" + host)) }

// ContentKey returns the position of a body by its digest.
func ContentKey(digest []byte) Key { return KeyOf(append([]byte("/apoidea/content/"), digest...)) }

// JobKey returns the position of a job's record.
func JobKey(id string) Key { return KeyOf([]byte("/apoidea/job/" + id)) }

// PeerKey returns the position of a peer: the hash of its ID's bytes, as in kad-dht, so that both
// share one routing table.
func PeerKey(id []byte) Key { return KeyOf(id) }

// Compare orders keys as numbers: -1, 0 or +1.
func (k Key) Compare(other Key) int { return bytes.Compare(k[:], other[:]) }

// String returns the start of the key in hex.
func (k Key) String() string { return hex.EncodeToString(k[:6]) }

// Hex returns the whole key in hex.
func (k Key) Hex() string { return hex.EncodeToString(k[:]) }

// Sub returns k - other modulo 2^256: the clockwise distance from other to k, itself ordered by
// Compare.
func (k Key) Sub(other Key) Key {
	var d Key
	var borrow uint64
	for i := KeySize - 8; i >= 0; i -= 8 {
		var word uint64
		word, borrow = bits.Sub64(be64(k[i:]), be64(other[i:]), borrow)
		putBE64(d[i:], word)
	}
	return d
}

// Add returns k + distance modulo 2^256.
func (k Key) Add(distance Key) Key {
	var sum Key
	var carry uint64
	for i := KeySize - 8; i >= 0; i -= 8 {
		var word uint64
		word, carry = bits.Add64(be64(k[i:]), be64(distance[i:]), carry)
		putBE64(sum[i:], word)
	}
	return sum
}

// Turns returns the key as a fraction of the circle, in [0, 1), with 53 bits: for plots and
// statistics.
func (k Key) Turns() float64 { return float64(be64(k[:])>>11) / (1 << 53) }

// Near returns the shorter of both distances between a and b.
func Near(a, b Key) Key {
	there, back := b.Sub(a), a.Sub(b)
	if there.Compare(back) <= 0 {
		return there
	}
	return back
}

func be64(b []byte) uint64       { return binary.BigEndian.Uint64(b) }
func putBE64(b []byte, v uint64) { binary.BigEndian.PutUint64(b, v) }

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

// PositionChoices is the number of keys that a peer draws at its first start. With eight the
// largest arc is 2.6 times the mean at 1,000 peers; with one it is 7.7 times.
const PositionChoices = 8

// BestPosition returns the index of the candidate that splits its arc best, so that the smaller
// half is largest. arcs[i] is the arc of the present owner of candidates[i]; the candidate takes
// (Start, candidate] and leaves (candidate, End]. It is 0 on a tie and without candidates.
// len(arcs) must be len(candidates).
func BestPosition(candidates []Key, arcs []Arc) int {
	best, bestHalf := 0, Key{}
	for i, candidate := range candidates {
		if half := smallerHalf(arcs[i], candidate); half.Compare(bestHalf) > 0 {
			best, bestHalf = i, half
		}
	}
	return best
}

func smallerHalf(arc Arc, at Key) Key {
	mine, theirs := at.Sub(arc.Start), arc.End.Sub(at)
	if mine.Compare(theirs) < 0 {
		return mine
	}
	return theirs
}

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
