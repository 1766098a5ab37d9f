package links

import (
	"math/bits"
	"slices"
)

// depths remembers up to a bound the smallest depth at which each of the latest URLs was met, at 12
// bytes each. A hash may stand in one of ways places, of which the one that was asked for longest
// ago is taken over.
type depths struct {
	hashes []uint64 // in groups of ways, the latest first; 0: free
	depth  []uint32
	shift  int // how many bits of a hash are left when its group is known
	n      int // of places that are taken
	most   int
}

// ways is how many URLs a group has: of so many that are alike in some bits the oldest is
// forgotten, and in a group of one the latest would be.
const ways = 8

// leastDepths is how many are remembered at first: what a peer has little of takes little.
const leastDepths = 1 << 10

func newDepths(most int) depths { return depths{most: max(most, 1)} }

// group is where a hash stands, if it does.
func (d *depths) group(hash uint64) (hashes []uint64, depth []uint32) {
	if d.hashes == nil {
		d.resize(min(d.most, leastDepths))
	}
	at := hash * 0x9E3779B97F4A7C15 >> d.shift * ways // shifted by 64: group 0
	return d.hashes[at : at+ways], d.depth[at : at+ways]
}

// resize makes room for so many, rounded down to a power of two, and keeps those that there are.
func (d *depths) resize(most int) {
	log := bits.Len(uint(max(most/ways, 1))) - 1
	old, at := d.hashes, d.depth
	d.shift, d.n = 64-log, 0
	d.hashes, d.depth = make([]uint64, ways<<log), make([]uint32, ways<<log)
	for i, hash := range slices.Backward(old) { // the latest of a group last
		if hash != 0 {
			d.put(hash, at[i])
		}
	}
}

// covers says whether the URL is known at this depth or a smaller one.
func (d *depths) covers(hash uint64, depth uint32) bool {
	hashes, depths := d.group(hash)
	for i, h := range hashes {
		if h == hash && h != 0 {
			at := depths[i]
			front(hashes, depths, i, hash, at)
			return at <= depth
		}
	}
	return false
}

func (d *depths) put(hash uint64, depth uint32) {
	hashes, depths := d.group(hash)
	last := len(hashes) - 1
	for i, h := range hashes {
		if h == 0 {
			last = i
			d.n++
			break
		}
		if h == hash {
			last, depth = i, min(depth, depths[i])
			break
		}
	}
	front(hashes, depths, last, hash, depth)
	if d.n > len(d.hashes)/2 && 2*len(d.hashes) <= d.most {
		d.resize(2 * len(d.hashes))
	}
}

// front moves what stands at a place to the front, as a hash and its depth.
func front(hashes []uint64, depths []uint32, at int, hash uint64, depth uint32) {
	copy(hashes[1:at+1], hashes[:at])
	copy(depths[1:at+1], depths[:at])
	hashes[0], depths[0] = hash, depth
}

func (d *depths) Clear() { *d = newDepths(d.most) }
