package permit

import (
	"errors"
	"net/netip"
	"time"
)

// maxPrefixes bounds the prefixes of which a granter remembers what it granted in this chunk, and
// those that a wallet keeps permits of; some 100 bytes each.
const maxPrefixes = 1 << 16

// ErrBusy says that a granter has no room for another prefix in this chunk.
var ErrBusy = errors.New("too many address ranges in this minute")

// Granter grants permits for the prefixes that this peer answers for.
type Granter struct {
	limit    int
	length   time.Duration // of a chunk
	chunk    time.Time     // when the present one began
	granted  map[netip.Prefix]int
	prefixes int
}

// NewGranter returns a granter of so many permits a prefix and chunk, 1 to MaxLimit, in chunks of
// that length, at most Chunk.
func NewGranter(limit int, chunk time.Duration) *Granter {
	return &Granter{length: lengthOf(chunk), limit: min(max(limit, 1), MaxLimit), granted: make(map[netip.Prefix]int), prefixes: maxPrefixes}
}

// Grant answers a worker that asks for permits: how many it gets, and for how long from now they
// hold. If it gets none, that is when it is worth asking again. At most half of what is left is
// granted at once, so that the first does not take all.
func (g *Granter) Grant(now time.Time, p netip.Prefix, want int) (n int, holds time.Duration, err error) {
	if begun := now.Truncate(g.length); !begun.Equal(g.chunk) {
		g.chunk = begun
		clear(g.granted)
	}
	used, known := g.granted[p]
	if !known && len(g.granted) >= g.prefixes {
		return 0, 0, ErrBusy
	}
	left := g.limit - used
	n = min(max(want, 0), MaxWant, (left+1)/2)
	g.granted[p] = used + n
	return n, g.chunk.Add(g.length).Sub(now), nil
}

func lengthOf(chunk time.Duration) time.Duration { return min(max(chunk, time.Second), Chunk) }
