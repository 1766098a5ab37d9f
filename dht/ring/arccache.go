package ring

import (
	"container/list"
	"slices"
)

// ArcCache is an LRU cache of arcs and their owners. Its arcs never overlap: a newer one trims
// older ones, so a result is always the latest for a key. Results are hints: rings change, and the
// receiver must confirm that it is the owner.
//
// V is the type of an owner. The zero value is not usable; see NewArcCache.
type ArcCache[V any] struct {
	limit  int
	arcs   []*list.Element // of *learnt[V], ordered by End
	recent *list.List      // most recently used in front
}

type learnt[V any] struct {
	arc   Arc
	owner V
}

// NewArcCache returns an empty cache of at most limit arcs.
func NewArcCache[V any](limit int) *ArcCache[V] {
	return &ArcCache[V]{limit: max(1, limit), recent: list.New()}
}

// Len returns the number of cached arcs.
func (c *ArcCache[V]) Len() int { return len(c.arcs) }

// Add records that owner, at arc.End, owns arc. Older arcs that end inside it are removed; one that
// it cuts keeps the rest.
func (c *ArcCache[V]) Add(arc Arc, owner V) {
	if arc.Whole() {
		c.Clear()
	}
	for len(c.arcs) > 0 {
		at := c.search(arc.Start)
		if entryOf[V](c.arcs[at]).arc.End == arc.Start {
			at = (at + 1) % len(c.arcs)
		}
		if !Between(arc.Start, entryOf[V](c.arcs[at]).arc.End, arc.End) {
			break
		}
		c.remove(at)
	}
	c.Split(arc.End)
	el := c.recent.PushFront(&learnt[V]{arc: arc, owner: owner})
	at, _ := slices.BinarySearchFunc(c.arcs, arc.End, compareEnd[V])
	c.arcs = slices.Insert(c.arcs, at, el)
	if len(c.arcs) > c.limit {
		c.forget(c.recent.Back())
	}
}

// Find returns the arc that contains key and its owner.
func (c *ArcCache[V]) Find(key Key) (Arc, V, bool) {
	if len(c.arcs) > 0 {
		el := c.arcs[c.search(key)]
		if entry := entryOf[V](el); entry.arc.Contains(key) {
			c.recent.MoveToFront(el)
			return entry.arc, entry.owner, true
		}
	}
	var none V
	return Arc{}, none, false
}

// Forget drops the arc that ends at owner: the peer there is gone, or denied owning it.
func (c *ArcCache[V]) Forget(owner Key) {
	if at, found := slices.BinarySearchFunc(c.arcs, owner, compareEnd[V]); found {
		c.remove(at)
	}
}

// Split records a new peer at key: an arc around key now starts there, because the keys before it
// belong to that peer.
func (c *ArcCache[V]) Split(key Key) {
	if len(c.arcs) == 0 {
		return
	}
	if entry := entryOf[V](c.arcs[c.search(key)]); entry.arc.Contains(key) && entry.arc.End != key {
		entry.arc.Start = key
	}
}

// Clear removes all arcs.
func (c *ArcCache[V]) Clear() {
	c.arcs = nil
	c.recent.Init()
}

// search returns the index of the first arc that ends at or after key, around the circle. The cache
// must not be empty.
func (c *ArcCache[V]) search(key Key) int {
	at, _ := slices.BinarySearchFunc(c.arcs, key, compareEnd[V])
	return at % len(c.arcs)
}

func (c *ArcCache[V]) remove(at int) {
	c.recent.Remove(c.arcs[at])
	c.arcs = slices.Delete(c.arcs, at, at+1)
}

func (c *ArcCache[V]) forget(el *list.Element) {
	at, _ := slices.BinarySearchFunc(c.arcs, entryOf[V](el).arc.End, compareEnd[V])
	c.remove(at)
}

func entryOf[V any](el *list.Element) *learnt[V] { return el.Value.(*learnt[V]) }

func compareEnd[V any](el *list.Element, end Key) int { return entryOf[V](el).arc.End.Compare(end) }
