package placement

import (
	"container/list"
	"net/netip"
	"time"
)

// Cache stores measurements by address range, so that a site near a measured one needs no probe. It
// is a bounded LRU. Not safe for concurrent use.
type Cache struct {
	maxAge time.Duration
	max    int
	ranges map[netip.Prefix]*list.Element // of *known
	recent list.List
}

// known has the measurements of a range.
type known struct {
	at       netip.Prefix
	measured map[string]aged
	worker   string
}

type aged struct {
	Measurement
	when time.Time
}

// NewCache returns a cache of up to max ranges whose measurements are valid for maxAge.
func NewCache(maxRanges int, maxAge time.Duration) *Cache {
	return &Cache{maxAge: maxAge, max: maxRanges, ranges: make(map[netip.Prefix]*list.Element)}
}

// RangeOf returns the range of an address: /24 of IPv4, /48 of IPv6.
func RangeOf(addr netip.Addr) netip.Prefix {
	addr = addr.Unmap()
	bits := 48
	if addr.Is4() {
		bits = 24
	}
	p, err := addr.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return p
}

// Measured returns the valid measurements of an address's range, by peer.
func (c *Cache) Measured(now time.Time, addr netip.Addr) map[string]Measurement {
	out := make(map[string]Measurement)
	if k := c.find(RangeOf(addr), false); k != nil {
		for peer, m := range k.measured {
			if now.Sub(m.when) <= c.maxAge {
				out[peer] = m.Measurement
			}
		}
	}
	return out
}

// Worker returns the last worker of the range, "" if there was none.
func (c *Cache) Worker(addr netip.Addr) string {
	if k := c.find(RangeOf(addr), false); k != nil {
		return k.worker
	}
	return ""
}

// Add adds a measurement of a peer. Failures are not stored: they depend on the moment more than
// on the path.
func (c *Cache) Add(now time.Time, addr netip.Addr, peer string, m Measurement) {
	if m.Err == "" {
		c.find(RangeOf(addr), true).measured[peer] = aged{m, now}
	}
}

// Placed sets the worker of a range.
func (c *Cache) Placed(addr netip.Addr, worker string) { c.find(RangeOf(addr), true).worker = worker }

func (c *Cache) find(at netip.Prefix, create bool) *known {
	if e, ok := c.ranges[at]; ok {
		c.recent.MoveToFront(e)
		return e.Value.(*known)
	}
	if !create {
		return nil
	}
	if len(c.ranges) >= c.max {
		oldest := c.recent.Back()
		delete(c.ranges, c.recent.Remove(oldest).(*known).at)
	}
	k := &known{at: at, measured: make(map[string]aged)}
	c.ranges[at] = c.recent.PushFront(k)
	return k
}
