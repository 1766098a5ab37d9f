package links

// depths caches the smallest depth at which each of the latest URLs was processed. It has two
// generations: when the young one has half of the maximum, it replaces the old one. An entry takes
// a quarter of the memory of a linked list's.
type depths struct {
	young, old map[uint64]uint32
	most       int
}

func newDepths(most int) depths { return depths{young: make(map[uint64]uint32), most: most} }

// covers reports whether the URL was processed at this depth or a smaller one.
func (d *depths) covers(hash uint64, depth uint32) bool {
	at, ok := d.young[hash]
	if !ok {
		if at, ok = d.old[hash]; ok {
			d.Set(hash, at)
		}
	}
	return ok && at <= depth
}

// Set stores the depth of a URL.
func (d *depths) Set(hash uint64, depth uint32) {
	if _, ok := d.young[hash]; !ok && len(d.young) >= max(1, d.most/2) {
		d.old, d.young = d.young, make(map[uint64]uint32)
	}
	d.young[hash] = depth
}

// Clear removes all URLs.
func (d *depths) Clear() { *d = newDepths(d.most) }
