package placement

import (
	"net/netip"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache stores measurements by address range, so that a site near a measured one needs no probe. It
// is a bounded LRU. Not safe for concurrent use.
type Cache struct {
	maxAge time.Duration
	ranges *simplelru.LRU[netip.Prefix, *known]
}

// known has the measurements of a range.
type known struct {
	measured map[string]aged
	worker   string
}

type aged struct {
	Measurement
	when time.Time
}

// NewCache returns a cache of up to max ranges whose measurements are valid for maxAge.
func NewCache(maxRanges int, maxAge time.Duration) *Cache {
	ranges, _ := simplelru.NewLRU[netip.Prefix, *known](max(maxRanges, 1), nil) // a positive size has no error
	return &Cache{maxAge: maxAge, ranges: ranges}
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
	if k, ok := c.ranges.Get(RangeOf(addr)); ok {
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
	if k, ok := c.ranges.Get(RangeOf(addr)); ok {
		return k.worker
	}
	return ""
}

// Add adds a measurement of a peer. Failures are not stored: they depend on the moment more than
// on the path.
func (c *Cache) Add(now time.Time, addr netip.Addr, peer string, m Measurement) {
	if m.Err == "" {
		c.of(addr).measured[peer] = aged{m, now}
	}
}

// Placed sets the worker of a range.
func (c *Cache) Placed(addr netip.Addr, worker string) { c.of(addr).worker = worker }

// of returns the range of an address, a new one if it is unknown.
func (c *Cache) of(addr netip.Addr) *known {
	at := RangeOf(addr)
	k, ok := c.ranges.Get(at)
	if !ok {
		k = &known{measured: make(map[string]aged)}
		c.ranges.Add(at, k)
	}
	return k
}
