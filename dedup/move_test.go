package dedup

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

func exported(t testing.TB, c *Content, lo, hi ring.Pos) (kvs []kv.Record) {
	t.Helper()
	from, to := ring.Bounds(lo, hi)
	err := c.records.Scan(from, to, func(key, value []byte) bool {
		kvs = append(kvs, kv.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return kvs
}

func importAll(t testing.TB, c *Content, kvs []kv.Record) {
	t.Helper()
	wait, err := c.Import(kvs)
	if err != nil || wait() != nil {
		t.Fatal(err)
	}
}

func confirmed(t testing.TB, c *Content, n int, url string) {
	t.Helper()
	if _, err := c.Confirm(key(n), Record{URL: url, Peer: "p", RecordID: "r" + url, Date: start}); err != nil {
		t.Fatal(err)
	}
}

// TestImportIsUnion: two sides that confirmed some of the same bodies come to the same, in any
// order, grouping and repetition.
func TestImportIsUnion(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 5))
		var all []kv.Record
		for side := range 3 {
			c := newContent(t, newMemory(), 0)
			for range 30 {
				confirmed(t, c, rng.IntN(40), fmt.Sprint("http://", rng.IntN(4)))
			}
			// One record of which a copy names another holder, as no honest peers write it.
			if _, err := c.Confirm(key(99), Record{URL: "u", Peer: fmt.Sprint(side), RecordID: "r", Date: start.Add(time.Duration(side) * time.Hour)}); err != nil {
				t.Fatal(err)
			}
			all = append(all, exported(t, c, ring.Pos{}, ring.Pos{})...)
		}
		var want []kv.Record
		for range 5 {
			rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			m := newMemory()
			c := newContent(t, m, 0)
			for rest := all; len(rest) > 0; {
				n := rng.IntN(len(rest)) + 1
				before := m.updates
				importAll(t, c, rest[:n])
				if m.updates > before+1 {
					t.Fatalf("%d writes for an import", m.updates-before)
				}
				rest = rest[n:]
			}
			got := exported(t, c, ring.Pos{}, ring.Pos{})
			if want == nil {
				want = got
			}
			if !reflect.DeepEqual(got, want) || len(got) != c.count() {
				t.Fatalf("seed %d: %d records, %d counted; want %d", seed, len(got), c.count(), len(want))
			}
			before := m.updates
			if importAll(t, c, all); m.updates != before {
				t.Fatalf("seed %d: the same again was written", seed)
			}
		}
	}
}

// TestImportEndsClaims: what was claimed here and archived elsewhere is known.
func TestImportEndsClaims(t *testing.T) {
	there, here := newContent(t, newMemory(), 0), newContent(t, newMemory(), 0)
	confirmed(t, there, 1, "u")
	if _, err := here.Claim(start, key(1), Claimant{"v", "q"}); err != nil {
		t.Fatal(err)
	}
	importAll(t, here, exported(t, there, ring.Pos{}, ring.Pos{}))
	reply, err := here.Claim(start, key(1), Claimant{"w", "r"})
	if err != nil || reply.Verdict != Known || reply.Record.URL != "u" || len(here.claims) != 0 {
		t.Errorf("%+v, %v, %d claims", reply, err, len(here.claims))
	}
}

func TestImportRefuses(t *testing.T) {
	good := Record{URL: "u", Peer: "p", RecordID: "r", Date: start}.append(nil)
	one, two, three := key(1), key(2), key(3)
	for _, row := range []struct {
		name string
		kv   kv.Record
	}{
		{"a short key", kv.Record{Key: two[:31], Value: good}},
		{"a long key", kv.Record{Key: append(two[:], 0), Value: good}},
		{"no value", kv.Record{Key: two[:], Value: nil}},
		{"another format", kv.Record{Key: two[:], Value: append([]byte{9}, good[1:]...)}},
		{"something behind it", kv.Record{Key: two[:], Value: append(bytes.Clone(good), 0)}},
	} {
		m := newMemory()
		c := newContent(t, m, 0)
		wait, err := c.Import([]kv.Record{{Key: one[:], Value: good}, row.kv, {Key: three[:], Value: good}})
		if !errors.Is(err, ErrRecord) || wait() != nil || len(m.values) != 1 {
			t.Errorf("%s: %d stored, %v", row.name, len(m.values), err)
		}
		if _, ok, err := c.Lookup(key(1)); !ok || err != nil {
			t.Errorf("%s: the one before it is lost: %v", row.name, err)
		}
	}
}

// TestRemove: an arc that goes away is gone, one that comes back is known again, and what was
// removed costs a read at most.
func TestRemove(t *testing.T) {
	m := newMemory()
	c := newContent(t, m, 0)
	const bodies = 2 * PaperURLs
	keys := make([]Key, bodies)
	for i := range keys {
		keys[i] = key(i)
		confirmed(t, c, i, "u")
	}
	slices.SortFunc(keys, func(a, b Key) int { return bytes.Compare(a[:], b[:]) })
	at := func(i int) ring.Pos { return ring.Pos(keys[i][:]) }
	full := c.known.bytes()
	for _, arc := range []struct {
		name   string
		lo, hi ring.Pos
		n      int
	}{
		{"nothing", at(7), at(7), 0},
		{"one", at(7), at(8), 1},
		{"the end", at(bodies - 100), ring.Pos{}, 100},
		{"the beginning", ring.Pos{}, at(1000), 999},
		{"all", ring.Pos{}, ring.Pos{}, bodies - 1100},
	} {
		moved := exported(t, c, arc.lo, arc.hi)
		n := len(moved)
		if n != arc.n {
			t.Errorf("%s: %d records; want %d", arc.name, n, arc.n)
		}
		left, before := len(m.values)-n, c.count()
		for again := range 2 {
			wait, err := c.Remove(arc.lo, arc.hi)
			if err != nil || wait() != nil || len(m.values) != left {
				t.Fatalf("%s: %d left, %v; want %d", arc.name, len(m.values), err, left)
			}
			for _, rec := range moved {
				if _, ok, err := c.Lookup(Key(rec.Key)); ok || err != nil {
					t.Fatalf("%s: %x is still there, %v", arc.name, rec.Key[:4], err)
				}
			}
			if again == 0 {
				importAll(t, c, moved) // it comes back
				if got := c.count(); got < before-5 || got > before+5 {
					t.Errorf("%s: %d records counted, want %d", arc.name, got, before)
				}
				for _, rec := range moved {
					if _, ok, err := c.Lookup(Key(rec.Key)); !ok || err != nil {
						t.Fatalf("%s: %x is lost, %v", arc.name, rec.Key[:4], err)
					}
				}
			}
		}
	}
	if c.count() > 10 || c.known.bytes() >= full {
		t.Errorf("%d records counted, and a filter of %d bytes of %d", c.count(), c.known.bytes(), full)
	}
}

// FuzzImport holds that records of strangers are refused or merge to the same in both orders.
func FuzzImport(f *testing.F) {
	c := newContent(f, newMemory(), 0)
	confirmed(f, c, 1, "http://b/")
	kvs := exported(f, c, ring.Pos{}, ring.Pos{})
	f.Add(kvs[0].Key, kvs[0].Value)
	smaller := Record{URL: "http://a/", Peer: "q", RecordID: "s", Date: start}.append(nil)
	f.Add(kvs[0].Key, smaller)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		in := []kv.Record{{Key: key, Value: value}}
		ab, ba := newContent(t, newMemory(), 0), newContent(t, newMemory(), 0)
		importAll(t, ab, kvs)
		if _, err := ab.Import(in); err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		importAll(t, ba, in)
		importAll(t, ba, kvs)
		if !reflect.DeepEqual(exported(t, ab, ring.Pos{}, ring.Pos{}), exported(t, ba, ring.Pos{}, ring.Pos{})) {
			t.Fatal("the order matters")
		}
	})
}
