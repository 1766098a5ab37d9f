package links

import "github.com/apoidea/apoidea/crawl/aging"

// depths caches the smallest depth at which each of the latest URLs was processed.
type depths struct {
	*aging.Map[uint64, uint32]
	most int
}

func newDepths(most int) depths { return depths{aging.New[uint64, uint32](most, nil), most} }

// covers reports whether the URL was processed at this depth or a smaller one.
func (d *depths) covers(hash uint64, depth uint32) bool {
	at, ok := d.Get(hash)
	return ok && at <= depth
}

// Clear removes all URLs.
func (d *depths) Clear() { *d = newDepths(d.most) }
