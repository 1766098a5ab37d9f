package permit

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

var (
	begin   = time.Unix(1_700_000_040, 0) // within a chunk
	prefix7 = netip.MustParsePrefix("192.0.2.7/32")
	key7    = Key{Prefix: prefix7}
)

func homeOf(p netip.Prefix) ring.Key { return Home(Key{Prefix: p}) }

func TestPrefixOf(t *testing.T) {
	for _, row := range []struct{ addr, prefix, neighbour, stranger string }{
		{"192.0.2.7", "192.0.2.7/32", "192.0.2.200", "192.0.3.7"},
		{"::ffff:192.0.2.7", "192.0.2.7/32", "192.0.2.8", "192.0.3.8"},
		{"2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", "2001:db8:1:9::1", "2001:db8:2:2::1"},
		{"fe80::1%eth0", "fe80::/64", "fe80:0:0:1::1", "fe81::1"},
	} {
		p, ok := PrefixOf(netip.MustParseAddr(row.addr))
		if !ok || p.String() != row.prefix {
			t.Errorf("%s: prefix %v", row.addr, p)
		}
		near, _ := PrefixOf(netip.MustParseAddr(row.neighbour))
		far, _ := PrefixOf(netip.MustParseAddr(row.stranger))
		if homeOf(p) != homeOf(near) || homeOf(p) == homeOf(far) {
			t.Errorf("%s: home of %s as well: %v, of %s: %v", row.addr, row.neighbour, homeOf(p) == homeOf(near), row.stranger, homeOf(p) == homeOf(far))
		}
	}
	if p, ok := PrefixOf(netip.Addr{}); ok {
		t.Errorf("no address has the prefix %v", p)
	}
}

// FuzzParseName: what is read as a prefix is one, and is named by what it was read from.
func FuzzParseName(f *testing.F) {
	for _, s := range []string{"192.0.2.7/32", "2001:db8:1:2::/64"} {
		f.Add(Name(netip.MustParsePrefix(s)))
	}
	f.Add([]byte{})
	f.Add([]byte{192, 0, 2, 7, 24})
	f.Add(append(make([]byte, 16), 65))
	f.Fuzz(func(t *testing.T, name []byte) {
		p, err := ParseName(name)
		if err != nil {
			return
		}
		if again, ok := PrefixOf(p.Addr()); !ok || again != p || !bytes.Equal(Name(p), name) {
			t.Errorf("%x: %v, whose prefix is %v", name, p, again)
		}
	})
}

// world is some workers that share an address, and those who grant them permits for it. Time passes
// in steps of 100 ms; an answer takes one step.
type world struct {
	t       *testing.T
	now     time.Time
	limit   int
	key     Key
	granter *Granter // nil: dead
	guests  bool     // the workers are
	wallets []*Wallet
	made    []time.Time // requests
	by      []int
}

func newWorld(t *testing.T, limit, workers int) *world {
	w := &world{t: t, now: begin, limit: limit, key: key7, granter: NewGranter(limit, Chunk), by: make([]int, workers)}
	for range workers {
		w.wallets = append(w.wallets, NewWallet(limit, Chunk, 0))
	}
	return w
}

// run has every worker make a request whenever it may, up to so many in a step, for so long.
func (w *world) run(d time.Duration, hunger int) {
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(100 * time.Millisecond) {
		for i, p := range w.wallets {
			for range hunger {
				if ok, again := p.Take(w.now, w.key, "a.example"); !ok {
					if !again.After(w.now) {
						w.t.Fatalf("worker %d is to try again at %v, at %v", i, again, w.now)
					}
					break
				}
				w.made = append(w.made, w.now)
				w.by[i]++
			}
			for _, q := range p.Asks(w.now) {
				if w.granter == nil {
					p.Failed(w.now, q.Key)
					continue
				}
				n, holds, err := w.granter.Grant(w.now, q.Key.Prefix, Caller{Peer: fmt.Sprint(i), Guest: w.guests}, q.Want)
				if err != nil {
					w.t.Fatal(err)
				}
				p.Granted(w.now, q.Key, n, holds)
			}
		}
	}
}

// most is the greatest number of requests in any chunk by the granter's clock, least the smallest
// in a whole one.
func (w *world) most() (most, least int) {
	chunks := make(map[time.Time]int)
	for _, at := range w.made {
		chunks[at.Truncate(Chunk)]++
	}
	least = 1 << 30
	for at := w.made[0].Truncate(Chunk).Add(Chunk); at.Add(Chunk).Before(w.now); at = at.Add(Chunk) {
		least = min(least, chunks[at])
	}
	for _, n := range chunks {
		most = max(most, n)
	}
	return most, least
}

// TestOneLimit: however many workers there are, and however hungry, together they keep the limit in
// each chunk, use nearly all of it, and none is left without.
func TestOneLimit(t *testing.T) {
	for _, workers := range []int{1, 2, 7, 20} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			w := newWorld(t, 240, workers)
			w.run(6*time.Minute, 3)
			most, least := w.most()
			if most > 240 || least < 220 {
				t.Errorf("%d to %d requests in a chunk, want at most 240 and nearly as many", least, most)
			}
			for i, n := range w.by {
				if n == 0 {
					t.Errorf("worker %d made none", i)
				}
			}
		})
	}
}

// TestGuestsLeaveSome: however often and under however many names guests ask, members have half of
// the limit when a chunk begins; guests that are alone have all of it, though not at once.
func TestGuestsLeaveSome(t *testing.T) {
	g, chunk := NewGranter(240, Chunk), begin.Truncate(Chunk)
	ask := func(after time.Duration, guest bool) (all int) {
		for i := range 100 {
			n, _, err := g.Grant(chunk.Add(after), prefix7, Caller{Peer: fmt.Sprint(i), Guest: guest}, MaxWant)
			if err != nil {
				t.Fatal(err)
			}
			all += n
		}
		return all
	}
	for _, row := range []struct {
		after time.Duration
		guest bool
		want  int
	}{{0, true, 120}, {Chunk / 2, true, 60}, {Chunk / 2, false, 60}, {Chunk, true, 120}, {Chunk, false, 120}, {2 * Chunk, false, 240}} {
		if n := ask(row.after, row.guest); n != row.want {
			t.Errorf("%+v: %d", row, n)
		}
	}
	w := newWorld(t, 240, 1)
	w.guests = true
	w.run(6*time.Minute, 3)
	if most, least := w.most(); most > 240 || least < 220 {
		t.Errorf("%d to %d requests of one guest in a chunk", least, most)
	}
	g.prefixes = 4
	for i := range byte(4) {
		p, _ := PrefixOf(netip.AddrFrom4([4]byte{192, 0, 2, i}))
		for _, guest := range []bool{true, false} {
			by := Caller{Peer: "p", Guest: guest}
			_, _, err := g.Grant(chunk.Add(3*Chunk), p, by, 1)
			_, _, terr := g.Turn(chunk.Add(3*Chunk), p.String(), by, time.Second, 1)
			if full := guest && i >= 2; errors.Is(err, ErrBusy) != full || errors.Is(terr, ErrBusy) != full {
				t.Errorf("prefix and domain %d, a guest %v: %v, %v", i, guest, err, terr)
			}
		}
	}
}

// TestModestWorkers: those that make few requests are never held up, and do not ask for each.
func TestModestWorkers(t *testing.T) {
	w := newWorld(t, 240, 1)
	p, asks := w.wallets[0], 0
	for range 120 { // one a second for two minutes
		ok := false
		for try := 0; try < 3 && !ok; try++ { // the first has to ask
			ok, _ = p.Take(w.now, w.key, "a.example")
			for _, q := range p.Asks(w.now) {
				asks++
				n, holds, _ := w.granter.Grant(w.now, q.Key.Prefix, Caller{}, q.Want)
				p.Granted(w.now, q.Key, n, holds)
			}
		}
		if !ok {
			t.Fatalf("held up at %v", w.now)
		}
		w.now = w.now.Add(time.Second)
	}
	if asks > 30 {
		t.Errorf("asked %d times for 120 requests", asks)
	}
}

// TestGranterDies: while nobody answers the crawl goes on at a small share; when another is there
// in its place, two limits hold at most in that one chunk.
func TestGranterDies(t *testing.T) {
	const limit = 240
	w := newWorld(t, limit, 6)
	w.run(3*time.Minute+20*time.Second, 3)
	w.granter = nil
	w.made = w.made[:0]
	w.run(5*time.Minute, 3)
	most, least := w.most()
	if share := 6 * limit / FallbackShare; least < share/2 || most > limit {
		t.Errorf("%d to %d requests in a chunk without a granter, want about %d, and no more than %d", least, most, share, limit)
	}
	w.granter = NewGranter(limit, Chunk)
	w.made = w.made[:0]
	w.run(4*time.Minute, 3)
	if most, least = w.most(); most > limit+6*limit/FallbackShare+6 || least < limit*9/10 {
		t.Errorf("%d to %d requests in a chunk after another granter came", least, most)
	}
	w.granter = NewGranter(limit, Chunk) // the arc has moved: it knows nothing of this chunk
	w.made = w.made[:0]
	w.run(Chunk-w.now.Sub(w.now.Truncate(Chunk)), 3)
	if n := len(w.made); n > 2*limit {
		t.Errorf("%d requests in the chunk in which the granter changed, want at most two limits", n)
	}
	w.made = w.made[:0]
	w.run(3*time.Minute, 3)
	if most, _ = w.most(); most > limit {
		t.Errorf("%d requests in a chunk behind that", most)
	}
}

// TestGiveBack: a permit with which nothing was asked counts again; one of a chunk that is over
// does not.
func TestGiveBack(t *testing.T) {
	p, key := NewWallet(240, Chunk, 0), key7
	p.Take(begin, key, "a.example")
	p.Asks(begin)
	p.Granted(begin, key, 1, 10*time.Second)
	for range 3 {
		ok, until := p.Take(begin, key, "a.example")
		if !ok || !until.Equal(begin.Add(10*time.Second)) {
			t.Fatalf("permit %v until %v", ok, until)
		}
		if again, _ := p.Take(begin, key, "a.example"); again {
			t.Fatal("two of one")
		}
		p.GiveBack(begin, key, until)
	}
	p.Take(begin, key, "a.example")
	later := begin.Add(10 * time.Second)
	if ok, _ := p.Take(later, key, "a.example"); ok {
		t.Error("a permit holds beyond its chunk")
	}
	p.GiveBack(later, key, begin.Add(10*time.Second))
	if ok, _ := p.Take(later, key, "a.example"); ok {
		t.Error("a permit of an earlier chunk came back")
	}
	p.Asks(later)
	p.Granted(later, key, 1, Chunk)
	p.Take(later, key, "a.example")
	p.GiveBack(later, key, begin.Add(10*time.Second))
	if ok, _ := p.Take(later, key, "a.example"); ok {
		t.Error("a permit of an earlier chunk came back into the next")
	}
}

// TestBounds: neither side remembers more prefixes than it has room for, and both go on when the
// chunk is over.
func TestBounds(t *testing.T) {
	g, p := NewGranter(4, Chunk), NewWallet(4, Chunk, 0)
	g.prefixes, p.most = 2, 2
	addr := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) } // few
	for i := range 2 {
		prefix, _ := PrefixOf(addr(i))
		if _, _, err := g.Grant(begin, prefix, Caller{}, 1); err != nil {
			t.Fatal(err)
		}
		p.Hold(begin, Address(addr(i)))
	}
	third, _ := PrefixOf(addr(3))
	if _, _, err := g.Grant(begin, third, Caller{}, 1); !errors.Is(err, ErrBusy) {
		t.Errorf("a prefix too many: %v", err)
	}
	if ok, _ := p.Take(begin, Address(addr(3)), "a.example"); ok {
		t.Error("a permit without room to note it")
	}
	for _, q := range p.Asks(begin) {
		p.Failed(begin, q.Key)
	}
	later := begin.Add(2 * Chunk)
	if n, _, err := g.Grant(later, third, Caller{}, 1); n != 1 || err != nil {
		t.Errorf("in another chunk: %d, %v", n, err)
	}
	p.Hold(later, Address(addr(3)))
	if asks := p.Asks(later); len(asks) != 1 || asks[0].Key.Prefix != third {
		t.Errorf("in another chunk: %v is asked", asks)
	}
}

// TestAskNamesTheHost: a question says for which host it is, the last that wanted a permit.
func TestAskNamesTheHost(t *testing.T) {
	w := NewWallet(240, Chunk, 0)
	for _, host := range []string{"a.example", "b.example"} {
		w.Take(begin, key7, host)
	}
	w.Hold(begin, key7)
	if asks := w.Asks(begin); len(asks) != 1 || asks[0].Host != "b.example" {
		t.Errorf("asked %+v", asks)
	}
}

// TestAnswersOfStrangers: an answer of any size keeps the bounds, and one that nobody waits for
// counts for nothing.
func TestAnswersOfStrangers(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	p, key := NewWallet(240, Chunk, 0), key7
	now := begin
	for range 2000 {
		now = now.Add(time.Duration(rnd.IntN(20)) * time.Second)
		p.Granted(now, key, rnd.IntN(1<<20)-1000, time.Duration(rnd.IntN(600)-60)*time.Second)
		p.Hold(now, key)
		p.Asks(now)
		p.Granted(now, key, rnd.IntN(1<<20)-1000, time.Duration(rnd.IntN(600)-60)*time.Second)
		s := p.shares[key]
		if s.left < 0 || s.left > 2*MaxWant || s.until.Sub(now) > Chunk {
			t.Fatalf("%d permits for %v", s.left, s.until.Sub(now))
		}
	}
}
