package links

// depths remembers up to a bound the smallest depth at which each of the latest URLs was met: two
// generations, the older thrown away when the younger is full.
type depths struct {
	young, old map[uint64]uint32
	limit      int
}

func newDepths(limit int) depths {
	return depths{young: make(map[uint64]uint32), limit: max(limit/2, 1)}
}

// covers says whether the URL is known at this depth or a smaller one.
func (d *depths) covers(hash uint64, depth uint32) bool {
	if at, ok := d.young[hash]; ok {
		return at <= depth
	}
	at, ok := d.old[hash]
	if ok {
		d.put(hash, at)
	}
	return ok && at <= depth
}

func (d *depths) put(hash uint64, depth uint32) {
	if at, ok := d.young[hash]; ok && at <= depth {
		return
	}
	if len(d.young) >= d.limit {
		d.old, d.young = d.young, make(map[uint64]uint32, d.limit)
	}
	d.young[hash] = depth
}

func (d *depths) Clear() { *d = newDepths(2 * d.limit) }
