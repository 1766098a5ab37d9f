package resolve

import (
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// cache is a bounded LRU of answers by name. It has no lock and no clock.
type cache struct {
	*simplelru.LRU[string, *entry]
}

type entry struct {
	answer  answer
	expires time.Time
}

func newCache(limit int) *cache {
	lru, _ := simplelru.NewLRU[string, *entry](max(limit, 1), nil) // a positive size has no error
	return &cache{lru}
}

// get returns the answer for name if it has not expired.
func (c *cache) get(name string, now time.Time) (*answer, bool) {
	e, ok := c.Get(name)
	if !ok || !now.Before(e.expires) {
		return nil, false
	}
	return &e.answer, true
}

// put caches an answer for its TTL. The absence of a name is cached for at most unconfirmed until
// two consecutive answers reported it.
func (c *cache) put(name string, a answer, now time.Time, unconfirmed time.Duration) {
	if a.ttl <= 0 {
		return
	}
	if before, ok := c.Peek(name); a.absent() && !(ok && before.answer.absent()) {
		a.ttl = min(a.ttl, unconfirmed)
	}
	c.Add(name, &entry{answer: a, expires: now.Add(a.ttl)})
}

// absent reports whether the answer is that the name, or an address of it, does not exist.
func (a *answer) absent() bool { return a.err != nil && a.err.Absent() }
