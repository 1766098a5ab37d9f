package permit

import (
	"errors"
	"maps"
	"net/netip"
	"time"
)

const (
	// maxPrefixes bounds the prefixes of which a granter remembers what it granted in this chunk,
	// the domains that have turns, and what a wallet keeps permits of; some 100 bytes each.
	maxPrefixes = 1 << 16
	// A turn is as long as what is asked for takes, between these shares of a chunk: 3.3 s, in which
	// a host is looked up and connected to, and 10 s, for which others wait.
	shortTurn, longTurn = 18, 6
)

// ErrBusy says that a granter has no room for another prefix in this chunk, or for another domain.
var ErrBusy = errors.New("too many address ranges or domains in this minute")

// Granter grants permits for the prefixes, and turns at the domains, that this peer answers for.
type Granter struct {
	limit    int
	length   time.Duration // of a chunk
	chunk    time.Time     // when the present one began
	granted  map[netip.Prefix]int
	turns    map[string]*turn // at domains
	prefixes int
}

// turn is the one of a worker at a domain.
type turn struct {
	worker string
	until  time.Time
	delay  time.Duration // for which it is remembered beyond that
	wanted bool          // by others, since it began
}

// NewGranter returns a granter of so many permits a prefix and chunk, 1 to MaxLimit, in chunks of
// that length, at most Chunk.
func NewGranter(limit int, chunk time.Duration) *Granter {
	return &Granter{length: lengthOf(chunk), limit: min(max(limit, 1), MaxLimit), granted: make(map[netip.Prefix]int), turns: make(map[string]*turn), prefixes: maxPrefixes}
}

// Grant answers a worker that asks for permits: how many it gets, and for how long from now they
// hold. If it gets none, that is when it is worth asking again. At most half of what is left is
// granted at once, so that the first does not take all.
func (g *Granter) Grant(now time.Time, p netip.Prefix, want int) (n int, holds time.Duration, err error) {
	g.begin(now)
	used, known := g.granted[p]
	if !known && len(g.granted) >= g.prefixes {
		return 0, 0, ErrBusy
	}
	n = min(max(want, 0), MaxWant, (g.limit-used+1)/2)
	g.granted[p] = used + n
	return n, g.chunk.Add(g.length).Sub(now), nil
}

// begin forgets what counts for nothing in a new chunk.
func (g *Granter) begin(now time.Time) {
	if begun := now.Truncate(g.length); !begun.Equal(g.chunk) {
		g.chunk = begun
		clear(g.granted)
		maps.DeleteFunc(g.turns, func(_ string, t *turn) bool { return now.After(t.until.Add(t.delay + askAgain)) })
	}
}

// Turn answers a worker that asks for a turn at a domain, of which it wants no two workers to ask
// within delay, to make some requests: for how long from now its turn is; if it gets none, n is
// zero, and that is when it is worth asking again. It goes on with its turn as long as no other
// wants one; else the others come first.
func (g *Granter) Turn(now time.Time, domain, worker string, delay time.Duration, want int) (n int, holds time.Duration, err error) {
	g.begin(now)
	t := g.turns[domain]
	if t == nil {
		if len(g.turns) >= g.prefixes {
			return 0, 0, ErrBusy
		}
		t = &turn{worker: worker}
		g.turns[domain] = t
	}
	next := t.until.Add(delay)
	if t.worker == worker && t.wanted {
		next = next.Add(askAgain)
	}
	if (t.worker != worker || t.wanted) && now.Before(next) {
		t.wanted = t.wanted || t.worker != worker
		return 0, min(next.Sub(now), Chunk), nil
	}
	want = min(max(want, 0), MaxWant)
	length := min(max(time.Duration(want)*delay, g.length/shortTurn), g.length/longTurn)
	*t = turn{worker: worker, until: now.Add(length), delay: delay}
	return want, length, nil
}

func lengthOf(chunk time.Duration) time.Duration { return min(max(chunk, time.Second), Chunk) }
