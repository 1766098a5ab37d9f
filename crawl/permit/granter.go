package permit

import (
	"errors"
	"maps"
	"net/netip"
	"time"
)

// Caller is who asks for permits and turns.
type Caller struct {
	Peer        string
	Incarnation uint64 // another one when the peer was started anew
	// Guest is no member of the ring: whoever wants can be one, under any number of names. What
	// guests have leaves enough for members.
	Guest bool
}

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
	// Delay is the one that this peer has between two workers at a domain, longer than which nobody
	// waits for the sake of a guest.
	Delay time.Duration

	limit    int
	length   time.Duration // of a chunk
	chunk    time.Time     // when the present one began
	granted  map[netip.Prefix]grants
	turns    map[string]*turn // at domains
	prefixes int
}

// grants are those of a prefix in this chunk.
type grants struct {
	all, guests int
}

// turn is the one of a worker at a domain.
type turn struct {
	by     Caller
	until  time.Time
	delay  time.Duration // the longest of who had it and who wanted it; so long it is remembered
	wanted bool          // by other peers, since it began
}

// NewGranter returns a granter of so many permits a prefix and chunk, 1 to MaxLimit, in chunks of
// that length, at most Chunk.
func NewGranter(limit int, chunk time.Duration) *Granter {
	return &Granter{length: lengthOf(chunk), limit: min(max(limit, 1), MaxLimit), granted: make(map[netip.Prefix]grants), turns: make(map[string]*turn), prefixes: maxPrefixes}
}

// Grant answers a worker that asks for permits: how many it gets, and for how long from now they
// hold. If it gets none, that is when it is worth asking again. At most half of what is left is
// granted at once, so that the first does not take all. Guests together may have half of the limit
// when a chunk begins, and more of it as it goes by, up to all.
func (g *Granter) Grant(now time.Time, p netip.Prefix, by Caller, want int) (n int, holds time.Duration, err error) {
	g.begin(now)
	s, known := g.granted[p]
	if !known && g.full(by, len(g.granted)) {
		return 0, 0, ErrBusy
	}
	holds = g.chunk.Add(g.length).Sub(now)
	n = min(max(want, 0), MaxWant, (g.limit-s.all+1)/2)
	if by.Guest {
		gone := int64(g.limit) * int64(g.length-holds) / int64(g.length) // of the limit, by the time
		n = min(n, max((g.limit+1)/2+int(gone)/2-s.guests, 0))           // at most the limit
		if n == 0 && s.all < g.limit {
			holds = min(holds, g.length/shortTurn)
		}
		s.guests += n
	}
	s.all += n
	g.granted[p] = s
	return n, holds, nil
}

// full says whether there is no room for one more that a caller names. One half is for members.
func (g *Granter) full(by Caller, n int) bool {
	if by.Guest {
		n *= 2
	}
	return n >= g.prefixes
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
// wants one; else the others come first, however often the peer is started anew. The longest delay
// of those who had the turn and who want one holds for all.
func (g *Granter) Turn(now time.Time, domain string, by Caller, delay time.Duration, want int) (n int, holds time.Duration, err error) {
	g.begin(now)
	t := g.turns[domain]
	if t == nil {
		if g.full(by, len(g.turns)) {
			return 0, 0, ErrBusy
		}
		t = &turn{by: by}
		g.turns[domain] = t
	}
	others := delay // wait so long for its sake
	if by.Guest {
		others = min(delay, g.Delay)
	}
	next, again := t.until.Add(max(delay, t.delay)), t.by.Peer == by.Peer
	if again && t.wanted {
		next = next.Add(askAgain)
	}
	if goesOn := again && t.by.Incarnation == by.Incarnation && !t.wanted; !goesOn && now.Before(next) {
		t.wanted, t.delay = t.wanted || !again, max(t.delay, others)
		return 0, min(next.Sub(now), Chunk), nil
	}
	want = min(max(want, 0), MaxWant)
	length := min(max(time.Duration(want)*delay, g.length/shortTurn), g.length/longTurn)
	*t = turn{by: by, until: now.Add(length), delay: others}
	return want, length, nil
}

func lengthOf(chunk time.Duration) time.Duration { return min(max(chunk, time.Second), Chunk) }
