package subnets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
)

func newStore(t *testing.T, records kv.Store) *Store {
	t.Helper()
	s, err := New(records)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *Store) put(t *testing.T, c ipmicra.Changes) {
	t.Helper()
	if _, err := s.Merge(testTime, c); err != nil {
		t.Fatal(err)
	}
}

func subnet(i int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24) // small
}

// drawn are changes as placements would bring them: of few ranges and peers, so that they meet.
func drawn(rnd *rand.Rand, n int) (list []ipmicra.Changes) {
	for range n {
		p, worker := subnet(rnd.IntN(6)), fmt.Sprint("peer", rnd.IntN(3))
		epoch := ipmicra.Epoch{Counter: rnd.Uint64N(4), Peer: worker}
		record := &ipmicra.Subnet{Prefix: p, Epoch: epoch, Worker: worker, Organisation: "org", Probes: map[string]ipmicra.Probe{
			worker: {RTT: time.Duration(rnd.IntN(90)) * time.Millisecond, At: time.UnixMilli(rnd.Int64N(1000)).UTC()},
		}}
		entry := ipmicra.Entry{Prefix: p, Epoch: epoch, Worker: worker}
		list = append(list, ipmicra.Changes{Subnets: []*ipmicra.Subnet{record}, Indexes: []*ipmicra.Index{
			{Key: ipmicra.Key{Kind: ipmicra.KindOrganisation, Organisation: "org"}, Entries: []ipmicra.Entry{entry}},
			{Key: ipmicra.Key{Kind: ipmicra.KindChildren, Prefix: netip.MustParsePrefix("10.0.0.0/8")}, Entries: []ipmicra.Entry{entry}},
			{Key: ipmicra.Key{Kind: ipmicra.KindChildren}, Entries: []ipmicra.Entry{{Prefix: netip.MustParsePrefix("10.0.0.0/8"), Below: true}}},
		}})
	}
	return list
}

// keysOf names the records of changes.
func keysOf(list []ipmicra.Changes) map[ipmicra.Key]bool {
	keys := make(map[ipmicra.Key]bool)
	for _, c := range list {
		for _, s := range c.Subnets {
			keys[s.Key()] = true
		}
		for _, x := range c.Indexes {
			keys[x.Key] = true
		}
	}
	return keys
}

// TestMergeInAnyOrder (invariant 4): however changes are grouped and ordered, and however often
// they come, the records are those that one memory would have.
func TestMergeInAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		changes := drawn(rnd, 40)
		memory := ipmicra.NewMemory()
		for _, c := range changes {
			memory.Merge(c)
		}
		s := newStore(t, make(kvtest.Map))
		for _, i := range append(rnd.Perm(len(changes)), rnd.Perm(len(changes))...) {
			s.put(t, ipmicra.Changes{Subnets: changes[i].Subnets})
			s.put(t, ipmicra.Changes{Indexes: changes[i].Indexes})
		}
		for k := range keysOf(changes) {
			got, err := s.Get(k)
			if err != nil {
				t.Fatal(err)
			}
			if want := encoded(t, memory, k); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, %v:\n%x, want\n%x", seed, k, got, want)
			}
		}
		if again := newStore(t, s.records); again.count != s.count {
			t.Errorf("seed %d: %d values counted, %d are kept", seed, s.count, again.count)
		}
	}
}

func encoded(t *testing.T, m *ipmicra.Memory, k ipmicra.Key) []byte {
	t.Helper()
	var raw []byte
	var err error
	if k.Kind == ipmicra.KindSubnet {
		record, _ := m.Subnet(k.Prefix)
		raw, err = record.AppendBinary(nil)
	} else {
		x, _ := m.Index(k)
		raw, err = x.AppendBinary(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestMove: records that go elsewhere, over a record that is there already, end as if all had been
// merged in one place.
func TestMove(t *testing.T) {
	changes := drawn(rand.New(rand.NewPCG(7, 7)), 60)
	whole, from, to := newStore(t, make(kvtest.Map)), newStore(t, make(kvtest.Map)), newStore(t, make(kvtest.Map))
	for i, c := range changes {
		whole.put(t, c)
		if i%2 == 0 {
			from.put(t, c)
		} else {
			to.put(t, c)
		}
	}
	var kvs []kv.Record
	if err := from.records.Scan(nil, nil, func(key, value []byte) bool {
		kvs = append(kvs, kv.Record{Key: bytes.Clone(key), Value: bytes.Clone(value)})
		return true
	}); err != nil {
		t.Fatal(err)
	}
	for part := range slices.Chunk(kvs, 3) {
		if _, err := to.Import(testTime, part); err != nil {
			t.Fatal(err)
		}
	}
	if !maps.EqualFunc(to.records.(kvtest.Map), whole.records.(kvtest.Map), bytes.Equal) || to.count != whole.count {
		t.Errorf("%d values after the move, want the %d of one place", to.count, whole.count)
	}
	half := ring.Pos{0x80}
	for _, arc := range [][2]ring.Pos{{{}, half}, {half, {}}} {
		if _, err := from.Remove(arc[0], arc[1]); err != nil {
			t.Fatal(err)
		}
		if arc[1] == half && (from.count == 0 || len(from.records.(kvtest.Map)) != from.count) {
			t.Errorf("%d values in the other half, %d counted", len(from.records.(kvtest.Map)), from.count)
		}
	}
	if from.count != 0 || len(from.records.(kvtest.Map)) != 0 {
		t.Errorf("%d values are left, %d counted", len(from.records.(kvtest.Map)), from.count)
	}
}

// TestImportRefuses: what is not what its key says is not taken, nor what comes with it.
func TestImportRefuses(t *testing.T) {
	source := newStore(t, make(kvtest.Map))
	source.put(t, drawn(rand.New(rand.NewPCG(1, 1)), 1)[0])
	good := source.records.(kvtest.Map)
	keys := slices.Sorted(maps.Keys(good))
	one, two := keys[0], keys[1]
	for _, row := range []struct {
		name string
		kv   kv.Record
	}{
		{"a value of another key", kv.Record{Key: []byte(one), Value: good[two]}},
		{"a key cut short", kv.Record{Key: []byte(one)[:ring.PosSize], Value: good[one]}},
		{"a key with more behind it", kv.Record{Key: append([]byte(one), 0), Value: good[one]}},
		{"no value", kv.Record{Key: []byte(one), Value: nil}},
		{"a value cut short", kv.Record{Key: []byte(one), Value: good[one][:len(good[one])-1]}},
		{"an index of nothing", kv.Record{Key: headOf(ipmicra.Key{Kind: ipmicra.KindChildren}), Value: []byte{1, 2, 0, 0}}},
	} {
		s := newStore(t, make(kvtest.Map))
		if _, err := s.Import(testTime, []kv.Record{{Key: []byte(two), Value: good[two]}, row.kv}); !errors.Is(err, ipmicra.ErrRecord) {
			t.Errorf("%s: %v", row.name, err)
		}
		if len(s.records.(kvtest.Map)) > 0 {
			t.Errorf("%s: something was taken", row.name)
		}
	}
}

// testTime is when what is drawn is merged.
var testTime = time.Unix(1_000_000_000, 0)

// TestAheadOfTime: a stranger cannot pin a record by an epoch that no honest one reaches, nor by
// probes of the future, whether it comes as a change or on the move; and an epoch as far ahead as
// is let in is overtaken a second later.
func TestAheadOfTime(t *testing.T) {
	const most = 1_000_000_000 + 3600
	later := testTime.Add(2 * time.Hour)
	p := subnet(1)
	for _, row := range []struct {
		name  string
		bad   ipmicra.Changes
		taken bool
	}{
		{"the last counter there is", ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: p, Epoch: ipmicra.Epoch{Counter: 1<<64 - 1, Peer: "z"}, Worker: "z"}}}, false},
		{"one too many", ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: p, Epoch: ipmicra.Epoch{Counter: most + 1, Peer: "z"}, Worker: "z"}}}, false},
		{"as many as may be", ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: p, Epoch: ipmicra.Epoch{Counter: most, Peer: "z"}, Worker: "z"}}}, true},
		{"a probe of later", ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: p, Probes: map[string]ipmicra.Probe{"z": {RTT: 1000, At: later}}}}}, false},
		{"anew since later", ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: p, Since: later}}}, false},
		{"an entry", ipmicra.Changes{Indexes: []*ipmicra.Index{{
			Key: ipmicra.Key{Kind: ipmicra.KindChildren}, Entries: []ipmicra.Entry{{Prefix: p, Epoch: ipmicra.Epoch{Counter: most + 1}, Worker: "z"}},
		}}}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStore(t, make(kvtest.Map))
			if _, err := s.Merge(testTime, row.bad); (err == nil) != row.taken || err != nil && !errors.Is(err, ipmicra.ErrRecord) {
				t.Errorf("as a change: %v", err)
			}
			if _, err := newStore(t, make(kvtest.Map)).Import(testTime, []kv.Record{moving(t, row.bad)}); (err == nil) != row.taken || err != nil && !errors.Is(err, ipmicra.ErrRecord) {
				t.Errorf("on the move: %v", err)
			}
			honest := &ipmicra.Subnet{Prefix: p, Epoch: ipmicra.Epoch{Counter: 1, Peer: "a"}, Worker: "a"}
			if row.taken {
				honest.Epoch.Counter = most + 1
			}
			if _, err := s.Merge(testTime.Add(time.Second), ipmicra.Changes{Subnets: []*ipmicra.Subnet{honest}}); err != nil {
				t.Fatal(err)
			}
			if got, err := s.subnet(honest.Key()); err != nil || got.Worker != "a" {
				t.Errorf("the next delegation: %+v, %v", got, err)
			}
		})
	}
}

// moving is the one record of changes as it moves.
func moving(t *testing.T, c ipmicra.Changes) (rec kv.Record) {
	t.Helper()
	var err error
	if len(c.Subnets) > 0 {
		rec.Key = headOf(c.Subnets[0].Key())
		rec.Value, err = c.Subnets[0].AppendBinary(nil)
	} else {
		x := c.Indexes[0]
		rec.Key = entryKey(headOf(x.Key), x.Entries[0].Prefix)
		rec.Value, err = x.AppendBinary(nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return rec
}

// TestBounds: an index keeps the entries that it would keep in memory, and a peer takes no more
// records than it has room for, but does change those it has.
func TestBounds(t *testing.T) {
	k := ipmicra.Key{Kind: ipmicra.KindChildren, Prefix: netip.MustParsePrefix("10.0.0.0/8")}
	s := newStore(t, make(kvtest.Map))
	memory := ipmicra.NewMemory()
	for half := range 2 {
		x := &ipmicra.Index{Key: k}
		for i := range ipmicra.MaxEntries/2 + 100 {
			x.Entries = append(x.Entries, ipmicra.Entry{Prefix: subnet(half*10000 + i), Worker: "w"})
		}
		s.put(t, ipmicra.Changes{Indexes: []*ipmicra.Index{x}})
		memory.Merge(ipmicra.Changes{Indexes: []*ipmicra.Index{x}})
	}
	got, err := s.Get(k)
	if err != nil || !bytes.Equal(got, encoded(t, memory, k)) || s.count != ipmicra.MaxEntries {
		t.Errorf("an index of too many entries: %d bytes, %d values, %v", len(got), s.count, err)
	}
	s.most = s.count
	for _, row := range []struct {
		name string
		p    netip.Prefix
		want error
	}{
		{"a record too many", subnet(1), ErrFull},
		{"an entry that changes", indexOf(memory, k).Entries[0].Prefix, nil},
	} {
		c := ipmicra.Changes{Indexes: []*ipmicra.Index{{Key: k, Entries: []ipmicra.Entry{{Prefix: row.p, Worker: "other", Epoch: ipmicra.Epoch{Counter: 9}}}}}}
		if row.want != nil {
			c = ipmicra.Changes{Subnets: []*ipmicra.Subnet{{Prefix: row.p}}}
		}
		if _, err := s.Merge(testTime, c); !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.name, err, row.want)
		}
	}
}

func indexOf(m *ipmicra.Memory, k ipmicra.Key) *ipmicra.Index {
	x, _ := m.Index(k)
	return x
}

// TestOrderOfEntries: values of an index lie in the order of its prefixes, of both families.
func TestOrderOfEntries(t *testing.T) {
	var prefixes []netip.Prefix
	rnd := rand.New(rand.NewPCG(3, 3))
	for range 300 {
		var a [16]byte
		binary.BigEndian.PutUint64(a[:], rnd.Uint64()>>uint(rnd.IntN(64)))
		v6, v4 := netip.AddrFrom16(a), netip.AddrFrom4([4]byte(a[4:8]))
		prefixes = append(prefixes, netip.PrefixFrom(v6, rnd.IntN(129)).Masked(), netip.PrefixFrom(v4, rnd.IntN(33)).Masked())
	}
	slices.SortFunc(prefixes, netip.Prefix.Compare)
	if !slices.IsSortedFunc(prefixes, func(a, b netip.Prefix) int { return bytes.Compare(entryKey(nil, a), entryKey(nil, b)) }) {
		t.Error("keys are not in the order of their prefixes")
	}
}

// FuzzParseKey: what is read as a key is named by what it was read from.
func FuzzParseKey(f *testing.F) {
	f.Add(byte(1), []byte{10, 0, 0, 0, 8})
	f.Add(byte(2), []byte{})
	f.Add(byte(2), append(make([]byte, 16), 48))
	f.Add(byte(3), []byte("org"))
	f.Add(byte(1), []byte{10, 0, 0, 1, 8})
	f.Fuzz(func(t *testing.T, kind byte, name []byte) {
		k, err := ParseKey(kind, name)
		if err != nil {
			if !errors.Is(err, ipmicra.ErrRecord) {
				t.Errorf("%v is no ErrRecord", err)
			}
			return
		}
		if byte(k.Kind) != kind || !bytes.Equal(Name(k), name) {
			t.Errorf("kind %d, name %x: %v is named %x", kind, name, k, Name(k))
		}
	})
}

// FuzzImport: no value does harm, and one that is taken is there.
func FuzzImport(f *testing.F) {
	source := make(kvtest.Map)
	s, err := New(source)
	if err != nil {
		f.Fatal(err)
	}
	if _, err := s.Merge(testTime, drawn(rand.New(rand.NewPCG(1, 1)), 1)[0]); err != nil {
		f.Fatal(err)
	}
	for k, v := range source {
		f.Add([]byte(k), v)
	}
	f.Add([]byte{1}, []byte{1, 2, 0, 0})
	pinned := &ipmicra.Subnet{Prefix: subnet(1), Epoch: ipmicra.Epoch{Counter: 1<<64 - 1, Peer: "z"}, Worker: "z"}
	raw, err := pinned.AppendBinary(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(headOf(pinned.Key()), raw)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		into := make(kvtest.Map)
		s, err := New(into)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Import(testTime, []kv.Record{{Key: key, Value: value}}); err == nil && !bytes.Equal(into[string(key)], value) {
			t.Errorf("taken under %x: %x, kept %x", key, value, into[string(key)])
		} else if _, c, parsed := Parse(value); err == nil && parsed == nil && len(c.Subnets) == 1 && c.Subnets[0].Epoch.Counter+1 == 0 {
			t.Errorf("taken with the last epoch there is: %x", value)
		}
	})
}
