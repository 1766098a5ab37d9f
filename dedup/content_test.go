package dedup

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
)

// memory is a keyspace in memory that counts its reads and writes.
type memory struct {
	values  kvtest.Map
	reads   int
	updates int
	fails   error
}

func newMemory() *memory { return &memory{values: make(kvtest.Map)} }

func (m *memory) Get(key []byte) ([]byte, bool, error) {
	m.reads++
	v, ok, _ := m.values.Get(key)
	return v, ok, m.fails
}

func (m *memory) Update(fn func(kv.Batch)) (wait func() error, err error) {
	m.updates++
	if m.fails == nil {
		fn(m.values)
	}
	return func() error { return m.fails }, m.fails
}

func (m *memory) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	_ = m.values.Scan(lo, hi, fn)
	return m.fails
}

func key(n int) Key {
	var k Key
	for i := range 4 {
		v := mix(uint64(n)*4 + uint64(i))
		for j := range 8 {
			k[8*i+j] = byte(v >> (8 * j))
		}
	}
	return k
}

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newContent(t testing.TB, m *memory, most int) *Content {
	t.Helper()
	c, err := NewContent(m)
	if err != nil {
		t.Fatal(err)
	}
	if most > 0 {
		c.max = most
	}
	return c
}

// TestLifeOfABody walks through the rules of claims and confirmations.
func TestLifeOfABody(t *testing.T) {
	a, b := Claimant{"http://a/", "peer a"}, Claimant{"http://b/", "peer b"}
	record := func(c Claimant) Record {
		return Record{URL: c.URL, Peer: c.Peer, RecordID: "id of " + c.URL, Date: start}
	}
	claim := func(after time.Duration, by Claimant, want Verdict) func(*testing.T, *Content) {
		return func(t *testing.T, c *Content) {
			t.Helper()
			reply, err := c.Claim(start.Add(after), key(1), by)
			if err != nil || reply.Verdict != want {
				t.Errorf("after %v %s is told %v, %v; want %v", after, by.Peer, reply.Verdict, err, want)
			}
		}
	}
	known := func(r Record) func(*testing.T, *Content) {
		return func(t *testing.T, c *Content) {
			t.Helper()
			reply, err := c.Claim(start, key(1), Claimant{"http://z/", "z"})
			if err != nil || reply.Verdict != Known || reply.Record != r {
				t.Errorf("got %+v, %v; want known as %+v", reply, err, r)
			}
		}
	}
	confirm := func(r Record) func(*testing.T, *Content) {
		return func(t *testing.T, c *Content) {
			t.Helper()
			if _, err := c.Confirm(key(1), r); err != nil {
				t.Error(err)
			}
		}
	}
	type steps []func(*testing.T, *Content)
	for _, row := range []struct {
		name  string
		steps steps
	}{
		{"the second waits", steps{claim(0, a, New), claim(0, b, Wait)}},
		{"the same asks again", steps{claim(0, a, New), claim(5*time.Second, a, New)}},
		{"asking again extends", steps{claim(0, a, New), claim(9*time.Second, a, New), claim(12*time.Second, b, Wait)}},
		{"same peer, another URL", steps{claim(0, a, New), claim(0, Claimant{"http://a/2", a.Peer}, Wait)}},
		{"a claim is no record", steps{claim(0, a, New), claim(10*time.Second, b, New)}},
		{"just before the end", steps{claim(0, a, New), claim(10*time.Second-1, b, Wait)}},
		{"confirmed", steps{claim(0, a, New), confirm(record(a)), known(record(a))}},
		{"confirmed without a claim", steps{confirm(record(a)), known(record(a))}},
		{"confirmed by another than the claimant", steps{claim(0, a, New), confirm(record(b)), known(record(b))}},
		{"two copies, smaller URL last", steps{confirm(record(b)), confirm(record(a)), known(record(a))}},
		{"two copies, smaller URL first", steps{confirm(record(a)), confirm(record(b)), known(record(a))}},
		{"same URL, smaller record ID", steps{
			confirm(Record{URL: "u", RecordID: "2", Date: start}),
			confirm(Record{URL: "u", RecordID: "1", Date: start.Add(time.Hour)}),
			known(Record{URL: "u", RecordID: "1", Date: start.Add(time.Hour)}),
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			m := newMemory()
			c := newContent(t, m, 0)
			for _, step := range row.steps {
				step(t, c)
			}
			// What is confirmed survives a restart, what is claimed does not.
			again := newContent(t, m, 0)
			reply, err := again.Claim(start, key(1), Claimant{"http://q/", "q"})
			if err != nil || (reply.Verdict == Known) != (len(m.values) > 0) || reply.Verdict == Wait {
				t.Errorf("after a restart: %+v, %v", reply, err)
			}
		})
	}
}

func TestUntilIsTheEndOfTheClaim(t *testing.T) {
	c := newContent(t, newMemory(), 0)
	first, err := c.Claim(start, key(1), Claimant{"a", "a"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := c.Claim(start.Add(time.Second), key(1), Claimant{"b", "b"})
	if err != nil || !first.Until.Equal(start.Add(10*time.Second)) || !second.Until.Equal(first.Until) {
		t.Errorf("claimed until %v, waiting until %v, %v", first.Until, second.Until, err)
	}
}

func TestClaimsAreBounded(t *testing.T) {
	c := newContent(t, newMemory(), 100)
	for i := range 1000 {
		if reply, err := c.Claim(start, key(i), Claimant{"u", "p"}); err != nil || reply.Verdict != New {
			t.Fatal(reply, err)
		}
		if n := len(c.claims); n > 100 || n != c.order.Len() {
			t.Fatalf("%d claims, %d in order", n, c.order.Len())
		}
	}
	for i, want := range map[int]Verdict{0: New, 899: New, 999: Wait} {
		if reply, err := c.Claim(start, key(i), Claimant{"v", "q"}); err != nil || reply.Verdict != want {
			t.Errorf("claim %d: %v, %v; want %v", i, reply.Verdict, err, want)
		}
	}
	if _, err := c.Claim(start.Add(time.Hour), key(5000), Claimant{"v", "q"}); err != nil || len(c.claims) != 1 {
		t.Errorf("%d claims an hour later, %v", len(c.claims), err)
	}
}

func TestUnknownBodiesCostNoRead(t *testing.T) {
	m := newMemory()
	c := newContent(t, m, 0)
	for i := range 20_000 {
		if _, err := c.Confirm(key(i), Record{URL: "u", RecordID: "r", Date: start}); err != nil {
			t.Fatal(err)
		}
	}
	again := newContent(t, m, 0)
	for name, c := range map[string]*Content{"grown": c, "read from disk": again} {
		m.reads = 0
		for i := range 20_000 {
			if reply, err := c.Claim(start, key(1_000_000+i), Claimant{"u", "p"}); err != nil || reply.Verdict != New {
				t.Fatal(reply, err)
			}
		}
		if m.reads > 40 {
			t.Errorf("%s: %d reads for 20000 unknown bodies", name, m.reads)
		}
		for i := range 20_000 {
			if _, ok, err := c.Lookup(key(i)); !ok || err != nil {
				t.Fatalf("%s: record %d is lost, %v", name, i, err)
			}
		}
	}
	if n, rate := again.count(), again.known.falsePositive(); n < 19_950 || n > 20_000 || rate > 0.001 {
		t.Errorf("%d records, false-positive rate %g", n, rate)
	}
}

// TestOrderOfConfirmationsDoesNotMatter applies the same records in many orders, some twice, as
// merges after a partition do: the outcome is one.
func TestOrderOfConfirmationsDoesNotMatter(t *testing.T) {
	var records []Record
	for i := range 6 {
		records = append(records, Record{URL: fmt.Sprint("u", i/2), Peer: "p", RecordID: fmt.Sprint(i), Date: start})
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 50 {
		rnd.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		m := newMemory()
		c := newContent(t, m, 0)
		var batch []Confirmation
		for _, r := range append(slices.Clone(records), records[:3]...) {
			batch = append(batch, Confirmation{key(1), r})
		}
		if _, err := c.ConfirmAll(batch); err != nil {
			t.Fatal(err)
		}
		if m.updates != 1 {
			t.Fatalf("%d writes for a batch", m.updates)
		}
		if got, ok, err := c.Lookup(key(1)); !ok || err != nil || got.URL != "u0" || got.RecordID != "0" {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
}

func TestBatchIsAnsweredInItsOrder(t *testing.T) {
	c := newContent(t, newMemory(), 0)
	if _, err := c.Confirm(key(3), Record{URL: "u", RecordID: "r", Date: start}); err != nil {
		t.Fatal(err)
	}
	p, q := Claimant{"1", "p"}, Claimant{"2", "q"}
	replies, err := c.ClaimAll(start, []Question{{key(9), p}, {key(3), p}, {key(9), q}, {key(1), q}})
	var got []Verdict
	for _, r := range replies {
		got = append(got, r.Verdict)
	}
	if want := []Verdict{New, Known, Wait, New}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func TestDiskErrorsComeThrough(t *testing.T) {
	m := newMemory()
	c := newContent(t, m, 0)
	if _, err := c.Confirm(key(1), Record{URL: "u", Date: start}); err != nil {
		t.Fatal(err)
	}
	m.fails = errors.New("disk broke")
	_, claimErr := c.Claim(start, key(1), Claimant{})
	_, confirmErr := c.Confirm(key(2), Record{URL: "u", Date: start})
	_, newErr := NewContent(m)
	for name, err := range map[string]error{"Claim": claimErr, "Confirm": confirmErr, "NewContent": newErr} {
		if !errors.Is(err, m.fails) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.fails = nil
	if _, err := c.Confirm(key(2), Record{URL: strings.Repeat("x", maxRecordField+1)}); !errors.Is(err, ErrRecord) {
		t.Errorf("a record too large: %v", err)
	}
	one := key(1)
	m.values[string(one[:])] = []byte("damaged")
	if _, _, err := c.Lookup(key(1)); !errors.Is(err, ErrRecord) {
		t.Errorf("a damaged record: %v", err)
	}
}

// count returns the approximate number of records.
func (c *Content) count() int { return max(0, c.known.len()-c.gone) }

func FuzzParseRecord(f *testing.F) {
	for _, r := range []Record{{Date: start}, {URL: "http://a/", Peer: "12D3", RecordID: "urn:uuid:x", Date: start.Add(time.Millisecond)}} {
		f.Add(r.append(nil))
	}
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseRecord(data)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("another error: %v", err)
			}
			return
		}
		again, err := ParseRecord(r.append(nil))
		if err != nil || again != r {
			t.Fatalf("%+v became %+v, %v", r, again, err)
		}
	})
}

func BenchmarkClaimUnknown(b *testing.B) {
	c := newContent(b, newMemory(), 0)
	for i := range 100_000 {
		if _, err := c.Confirm(key(i), Record{URL: "u", RecordID: "r", Date: start}); err != nil {
			b.Fatal(err)
		}
	}
	i := 1_000_000
	for b.Loop() {
		i++
		if _, err := c.Claim(start, key(i), Claimant{"u", "p"}); err != nil {
			b.Fatal(err)
		}
	}
}
