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
