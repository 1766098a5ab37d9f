package resolve

import (
	"container/list"
	"time"
)

// cache is a bounded LRU of answers by name. It has no lock and no clock.
type cache struct {
	max     int
	recent  *list.List // of *entry, the one used last in front
	entries map[string]*list.Element
}

type entry struct {
	name    string
	answer  answer
	expires time.Time
}

func newCache(limit int) *cache {
	return &cache{max: limit, recent: list.New(), entries: make(map[string]*list.Element)}
}

// get returns the answer for name if it may still be believed.
func (c *cache) get(name string, now time.Time) (*answer, bool) {
	el, ok := c.entries[name]
	if !ok {
		return nil, false
	}
	e := el.Value.(*entry)
	if !now.Before(e.expires) {
		if !e.answer.absent() { // whoever is told so again believes it for longer
			c.drop(el)
		}
		return nil, false
	}
	c.recent.MoveToFront(el)
	return &e.answer, true
}

// put keeps an answer for its TTL and drops what was used longest ago. That there is no such name
// is kept no longer than unconfirmed until it was said twice in a row.
func (c *cache) put(name string, a answer, now time.Time, unconfirmed time.Duration) {
	if a.ttl <= 0 {
		return
	}
	said := false
	if el, ok := c.entries[name]; ok {
		said = el.Value.(*entry).answer.absent()
		c.drop(el)
	}
	if a.absent() && !said {
		a.ttl = min(a.ttl, unconfirmed)
	}
	c.entries[name] = c.recent.PushFront(&entry{name: name, answer: a, expires: now.Add(a.ttl)})
	for c.recent.Len() > c.max {
		c.drop(c.recent.Back())
	}
}

// absent says whether the answer is that there is no such name, or no address of it.
func (a *answer) absent() bool { return a.err != nil && a.err.Absent() }

func (c *cache) drop(el *list.Element) {
	delete(c.entries, el.Value.(*entry).name)
	c.recent.Remove(el)
}

func (c *cache) len() int { return c.recent.Len() }
