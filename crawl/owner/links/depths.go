package links

import (
	"math/bits"
	"slices"
)

// latest remembers up to a bound what was noted of the latest URLs, at 12 bytes each. A hash may
// stand in one of ways places, of which the one that was asked for longest ago is taken over.
type latest struct {
	hashes []uint64 // in groups of ways, the latest first; 0: free
	noted  []uint32
	shift  int // how many bits of a hash are left when its group is known
	n      int // of places that are taken
	most   int
}

// ways is how many URLs a group has: of so many that are alike in some bits the oldest is
// forgotten, and in a group of one the latest would be.
const ways = 8

// leastLatest is how many are remembered at first: what a peer has little of takes little.
const leastLatest = 1 << 10

func newLatest(most int) latest { return latest{most: max(most, 1)} }

// group is where a hash stands, if it does.
func (l *latest) group(hash uint64) (hashes []uint64, noted []uint32) {
	if l.hashes == nil {
		l.resize(min(l.most, leastLatest))
	}
	at := hash * 0x9E3779B97F4A7C15 >> l.shift * ways // shifted by 64: group 0
	return l.hashes[at : at+ways], l.noted[at : at+ways]
}

// resize makes room for so many, rounded down to a power of two, and keeps those that there are.
func (l *latest) resize(most int) {
	log := bits.Len(uint(max(most/ways, 1))) - 1
	old, noted := l.hashes, l.noted
	l.shift, l.n = 64-log, 0
	l.hashes, l.noted = make([]uint64, ways<<log), make([]uint32, ways<<log)
	for i, hash := range slices.Backward(old) { // the latest of a group last
		if hash != 0 {
			l.put(hash, noted[i])
		}
	}
}

// get returns what was noted of a URL; false if nothing was, or is remembered.
func (l *latest) get(hash uint64) (noted uint32, ok bool) {
	hashes, list := l.group(hash)
	for i, h := range hashes {
		if h == hash && h != 0 {
			noted = list[i]
			front(hashes, list, i, hash, noted)
			return noted, true
		}
	}
	return 0, false
}

// put notes something of a URL in place of what was noted.
func (l *latest) put(hash uint64, noted uint32) {
	hashes, list := l.group(hash)
	at := len(hashes) - 1
	for i, h := range hashes {
		if h == 0 || h == hash {
			at = i
			break
		}
	}
	if hashes[at] == 0 {
		l.n++
	}
	front(hashes, list, at, hash, noted)
	if l.n > len(l.hashes)/2 && 2*len(l.hashes) <= l.most {
		l.resize(2 * len(l.hashes))
	}
}

// front moves what stands at a place to the front, as a hash and what is noted of it.
func front(hashes []uint64, list []uint32, at int, hash uint64, noted uint32) {
	copy(hashes[1:at+1], hashes[:at])
	copy(list[1:at+1], list[:at])
	hashes[0], list[0] = hash, noted
}

// Clear forgets everything.
func (l *latest) Clear() { *l = newLatest(l.most) }

// depths remembers the smallest depth at which each URL was met.
type depths struct{ latest }

func newDepths(most int) depths { return depths{newLatest(most)} }

// covers says whether the URL is known at this depth or a smaller one.
func (d *depths) covers(hash uint64, depth uint32) bool {
	at, ok := d.get(hash)
	return ok && at <= depth
}

func (d *depths) put(hash uint64, depth uint32) {
	if at, ok := d.get(hash); ok {
		depth = min(depth, at)
	}
	d.latest.put(hash, depth)
}
