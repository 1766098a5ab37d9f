package ipmicra

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// encoded is everything that a memory holds.
func encoded(t *testing.T, m *Memory) []string {
	t.Helper()
	var all []string
	for s := range m.Subnets() {
		b, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	keys := slices.SortedFunc(maps.Keys(m.indexes), func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.Prefix.Compare(b.Prefix), cmp.Compare(a.Organisation, b.Organisation))
	})
	for _, k := range keys {
		b, err := m.indexes[k].AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(b))
	}
	return all
}

func randomSubnet(r *rand.Rand) *Subnet {
	s := &Subnet{
		Prefix: prefix("20.0.0.0/8"), Epoch: Epoch{r.Uint64N(3), string(rune('a' + r.IntN(2)))}, Worker: string(rune('a' + r.IntN(3))),
		Since: time.UnixMilli(r.Int64N(3)).UTC(), Probes: make(map[string]Probe),
	}
	for range r.IntN(MaxProbes + 1) {
		s.Probes[fmt.Sprint("peer", r.IntN(2*MaxProbes))] = Probe{time.Duration(r.IntN(3)) * time.Millisecond, time.UnixMilli(r.Int64N(5)).UTC()}
	}
	return s
}

func randomIndex(r *rand.Rand, entries int) *Index {
	x, all := &Index{Key: Key{Kind: KindOrganisation, Organisation: "acme"}}, make(map[netip.Prefix]Entry)
	for range entries {
		var a [4]byte
		a[0], a[1] = byte(r.IntN(32)), byte(r.IntN(256))
		e := Entry{netip.PrefixFrom(netip.AddrFrom4(a), 16), Epoch{r.Uint64N(3), "p"}, string(rune('a' + r.IntN(3))), r.IntN(2) == 0}
		all[e.Prefix] = e
	}
	x.Entries = slices.SortedFunc(maps.Values(all), func(a, b Entry) int { return a.Prefix.Compare(b.Prefix) })
	x.Entries = x.Entries[:min(len(x.Entries), MaxEntries)]
	return x
}

// clones by way of the encoding, which tests that as well.
func (s *Subnet) clone(t *testing.T) *Subnet {
	t.Helper()
	b, err := s.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseSubnet(b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (x *Index) clone(t *testing.T) *Index {
	t.Helper()
	b, err := x.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := ParseIndex(b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// laws holds a merge to what records that arrive in any order need.
func laws[R any](t *testing.T, a, b, c R, clone func(R) R, merge func(R, R) bool, encode func(R) []byte) {
	t.Helper()
	join := func(all ...R) R {
		x := clone(all[0])
		for _, y := range all[1:] {
			merge(x, y)
		}
		return x
	}
	same := func(law string, x, y R) {
		t.Helper()
		if !bytes.Equal(encode(x), encode(y)) {
			t.Errorf("not %s:\n%q\n%q", law, encode(x), encode(y))
		}
	}
	same("commutative", join(a, b), join(b, a))
	same("associative", join(join(a, b), c), join(a, join(b, c)))
	same("idempotent", join(a, b, b, a), join(a, b))
	if both := join(a, b); merge(both, a) || merge(both, b) {
		t.Error("merging again says that something changed")
	}
}

func TestMergeLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		laws(t, randomSubnet(r), randomSubnet(r), randomSubnet(r),
			func(s *Subnet) *Subnet { return s.clone(t) }, (*Subnet).Merge,
			func(s *Subnet) []byte { b, _ := s.AppendBinary(nil); return b })
	}
	for i := range 11 {
		n := 20
		if i >= 10 {
			n = MaxEntries * 4 / 3 // beyond the bound once merged
		}
		laws(t, randomIndex(r, n), randomIndex(r, n), randomIndex(r, n),
			func(x *Index) *Index { return x.clone(t) }, (*Index).Merge,
			func(x *Index) []byte { b, _ := x.AppendBinary(nil); return b })
	}
}

func TestHigherEpochWins(t *testing.T) {
	tests := map[string]struct {
		a, b   Epoch
		worker string // of a is "a", of b "b"
	}{
		"counter":             {Epoch{2, "p"}, Epoch{1, "q"}, "a"},
		"peer, counters same": {Epoch{2, "p"}, Epoch{2, "q"}, "b"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Subnet{Prefix: prefix("20.0.0.0/8"), Epoch: tt.a, Worker: "a"}
			s.Merge(&Subnet{Prefix: prefix("20.0.0.0/8"), Epoch: tt.b, Worker: "b"})
			if s.Worker != tt.worker {
				t.Errorf("worker %s, want %s", s.Worker, tt.worker)
			}
		})
	}
}

func TestKeysOnTheRing(t *testing.T) {
	sub, kids := Key{Kind: KindSubnet, Prefix: prefix("20.0.0.0/8")}, Key{Kind: KindChildren, Prefix: prefix("20.0.0.0/8")}
	if sub.Ring() != kids.Ring() {
		t.Error("a subnet and the index of its children lie apart")
	}
	// The first bytes of sha256 of "/apoidea/subnet/20.0.0.0/8" and of
	// "/apoidea/organisation/acme".
	for key, want := range map[Key]string{sub: "0d6258da0088", {Kind: KindOrganisation, Organisation: "acme"}: "2f936487ac30"} {
		if got := key.Ring().String(); got != want {
			t.Errorf("%v lies at %s, want %s", key, got, want)
		}
	}
}

func TestBoundsOfRecords(t *testing.T) {
	long := string(make([]byte, MaxPeer+1))
	for name, s := range map[string]*Subnet{
		"no prefix":   {},
		"host bits":   {Prefix: netip.PrefixFrom(addr("20.0.0.1"), 8)},
		"worker":      {Prefix: prefix("20.0.0.0/8"), Worker: long},
		"prober":      {Prefix: prefix("20.0.0.0/8"), Probes: map[string]Probe{long: {}}},
		"rtt":         {Prefix: prefix("20.0.0.0/8"), Probes: map[string]Probe{"a": {RTT: time.Hour}}},
		"below zero":  {Prefix: prefix("20.0.0.0/8"), Probes: map[string]Probe{"a": {RTT: -1}}},
		"long labels": {Prefix: prefix("20.0.0.0/8"), Organisation: string(make([]byte, MaxOrganisation+1))},
	} {
		if _, err := s.AppendBinary(nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	two := []Entry{{Prefix: prefix("20.0.0.0/8")}, {Prefix: prefix("10.0.0.0/8")}}
	for name, x := range map[string]*Index{
		"kind":  {Key: Key{Kind: KindSubnet, Prefix: prefix("20.0.0.0/8")}},
		"order": {Key: Key{Kind: KindChildren}, Entries: two},
		"entry": {Key: Key{Kind: KindChildren}, Entries: []Entry{{}}},
	} {
		if _, err := x.AppendBinary(nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzParseSubnet(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		b, err := randomSubnet(r).AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseSubnet(data)
		if err != nil {
			return
		}
		again, err := s.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%v, read\n%x written\n%x", err, data, again)
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3 {
		x := randomIndex(r, 5)
		b, err := x.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		x.Key = Key{Kind: KindChildren}
		if b, err = x.AppendBinary(nil); err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		x, err := ParseIndex(data)
		if err != nil {
			return
		}
		again, err := x.AppendBinary(nil)
		if err != nil || !bytes.Equal(again, data) {
			t.Fatalf("%v, read\n%x written\n%x", err, data, again)
		}
	})
}
