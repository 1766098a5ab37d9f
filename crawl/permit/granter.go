package permit

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

// Caller identifies a worker that requests permits and time slices.
type Caller struct {
	Peer        string
	Incarnation uint64 // changes with each start of the peer
	// Guest is set for a worker that is not a ring member: such names are free to create. Guests leave
	// enough permits for members.
	Guest bool
}

const (
	// maxPrefixes bounds the prefixes with grants in this chunk, the domains with time slices, and the
	// permits in a wallet; some 100 bytes each.
	maxPrefixes = 1 << 16
	// A time slice covers the requested number of requests, between these shares of a chunk: 3.3 s,
	// enough to resolve and connect to a host, and 10 s, since others wait.
	shortTurn, longTurn = 18, 6
)

// ErrBusy is returned if a granter cannot track another prefix in this chunk, or another domain.
var ErrBusy = errors.New("too many address prefixes or domains in this minute")

// Granter grants permits for prefixes and time slices for domains that this peer owns.
type Granter struct {
	// Delay is this peer's delay between two workers at a domain, and the longest delay on account of
	// a guest.
	Delay time.Duration

	limit    int
	length   time.Duration // of a chunk
	chunk    time.Time     // start of the current one
	granted  map[netip.Prefix]grants
	turns    map[string]*turn // by domain
	prefixes int
}

// grants are the permits of a prefix granted in this chunk.
type grants struct {
	all, guests int
}

// turn is the time slice of a worker at a domain.
type turn struct {
	by     Caller
	until  time.Time
	delay  time.Duration // the longest of its workers, past and waiting; it is remembered that long
	wanted bool          // by other peers, since it began
}

// NewGranter returns a granter of limit permits per prefix and chunk, 1 to MaxLimit, with chunks of
// that length, at most Chunk.
func NewGranter(limit int, chunk time.Duration) *Granter {
	return &Granter{length: lengthOf(chunk), limit: min(max(limit, 1), MaxLimit), granted: make(map[netip.Prefix]grants), turns: make(map[string]*turn), prefixes: maxPrefixes}
}

// Grant returns the number of permits for a worker and how long they are valid from now; if n is
// zero, that is when to retry. At most half of the rest is granted at once, so that no worker gets
// all. All guests together get at most half of the limit at the start of a chunk, and up to all of
// it as the chunk passes.
func (g *Granter) Grant(now time.Time, p netip.Prefix, by Caller, want int) (n int, holds time.Duration, err error) {
	g.begin(now)
	s, known := g.granted[p]
	if !known && g.full(by, len(g.granted)) {
		return 0, 0, ErrBusy
	}
	holds = g.chunk.Add(g.length).Sub(now)
	n = min(max(want, 0), MaxWant, (g.limit-s.all+1)/2)
	if by.Guest {
		gone := int64(g.limit) * int64(g.length-holds) / int64(g.length) // elapsed part of the limit
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

// full reports whether one more entry named by a caller exceeds the limit. Half is reserved for
// members.
func (g *Granter) full(by Caller, n int) bool {
	if by.Guest {
		n *= 2
	}
	return n >= g.prefixes
}

// begin drops the state of earlier chunks.
func (g *Granter) begin(now time.Time) {
	if begun := now.Truncate(g.length); !begun.Equal(g.chunk) {
		g.chunk = begun
		clear(g.granted)
		maps.DeleteFunc(g.turns, func(_ string, t *turn) bool { return now.After(t.until.Add(t.delay + askAgain)) })
	}
}

// Turn requests a time slice at a domain with a delay between two workers, for want requests. It
// returns how long from now the time slice is; if n is zero, that is when to retry. A worker
// continues its time slice as long as no other requests one; else the others come first, even if
// the peer restarts. The longest delay of its workers, past and waiting, applies to all.
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
	others := delay // longest delay on its account
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

const (
	// Chunk is the longest validity of permits (design, section 6).
	Chunk = time.Minute
	// FallbackShare is the number of workers that together stay within the limit without a granter. A
	// host's worker is in the leaf set of its owner, some sixteen peers and four attached ones.
	FallbackShare = 20
	// MaxWant bounds one request, and MaxLimit the limit of a prefix in requests per chunk.
	MaxWant  = 4096
	MaxLimit = 1 << 20 // requests per chunk

	// MaxDelay bounds the delay between the time slices of two workers at a domain.
	MaxDelay = time.Hour

	bits4, bits6 = 32, 64
	home4, home6 = 24, 48
)

// Key is the unit of a limit: a prefix, or a registrable domain. The zero Key is unlimited.
type Key struct {
	Prefix netip.Prefix // of addresses
	Domain string       // if Prefix is unset
}

// Address returns the Key of an address; the zero Key for an invalid one.
func Address(addr netip.Addr) (k Key) {
	k.Prefix, _ = PrefixOf(addr)
	return k
}

// PrefixOf returns the prefix of an address; false for an invalid one.
func PrefixOf(addr netip.Addr) (netip.Prefix, bool) {
	addr = addr.Unmap().WithZone("")
	n := bits4
	if addr.Is6() {
		n = bits6
	}
	p, err := addr.Prefix(n)
	return p, err == nil && p.IsValid()
}

// Home returns the ring position of a Key; for a prefix, that of the network around it, so that
// neighboring prefixes have one granter.
func Home(k Key) ring.Key {
	if k.Domain != "" {
		return ring.KeyOf([]byte("/apoidea/turns/" + k.Domain))
	}
	p, n := k.Prefix, home4
	if p.Addr().Is6() {
		n = home6
	}
	around, err := p.Addr().Prefix(n)
	if err != nil {
		around = p
	}
	return ring.KeyOf(append([]byte("/apoidea/addresses/"), Name(around)...))
}

// Name returns the wire form of a prefix: its address bytes and its length.
func Name(p netip.Prefix) []byte { return append(p.Addr().AsSlice(), byte(p.Bits())) } // at most 128

// ParseName parses an untrusted Name.
func ParseName(name []byte) (netip.Prefix, error) {
	if len(name) == 0 {
		return netip.Prefix{}, fmt.Errorf("empty prefix")
	}
	addr, ok := netip.AddrFromSlice(name[:len(name)-1])
	if ok {
		if p, same := PrefixOf(addr); same && p.Addr() == addr && p.Bits() == int(name[len(name)-1]) {
			return p, nil
		}
	}
	return netip.Prefix{}, fmt.Errorf("prefix %x: want a /%d or a /%d", name[:min(len(name), 20)], bits4, bits6)
}
