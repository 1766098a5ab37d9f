package domain

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/kv/kvtest"
)

func newStore(t testing.TB, s kvtest.Map, hosts int) *Store {
	t.Helper()
	store, err := New(s, hosts)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func (s *Store) admit(t testing.TB, id job.ID, hosts ...string) []Verdict {
	t.Helper()
	v, wait, err := s.Admit(id, hosts)
	if err != nil || wait() != nil {
		t.Fatal(err)
	}
	return v
}

var one, two = job.ID{1}, job.ID{2}

func TestOf(t *testing.T) {
	for _, row := range []struct {
		host, domain string
		plain        bool
	}{
		{"example.org", "example.org", true},
		{"www.example.org", "example.org", true},
		{"a.b.example.org", "example.org", false},
		{"example.org:8080", "example.org", false},
		{"shop.example.co.uk", "example.co.uk", false},
		{"www.example.co.uk", "example.co.uk", true},
		{"me.github.io", "me.github.io", true}, // a suffix of the list's private part
		{"a.me.github.io", "me.github.io", false},
		{"localhost", "localhost", true},
		{"h1.web.localhost:80", "web.localhost", false},
		{"co.uk", "co.uk", true},
		{"192.0.2.7", "192.0.2.7", true},
		{"192.0.2.7:8080", "192.0.2.7", false},
		{"[2001:db8::1]:8080", "[2001:db8::1]", false},
		{"xn--bcher-kva.example", "xn--bcher-kva.example", true},
	} {
		if d, plain := Of(row.host), Plain(row.host); d != row.domain || plain != row.plain {
			t.Errorf("%s: domain %s, plain %v", row.host, d, plain)
		}
	}
	for _, row := range []struct {
		domain, host string
		covers       bool
	}{
		{"example.org", "example.org", true},
		{"example.org", "a.b.example.org:8080", true},
		{"example.org", "badexample.org", false},
		{"b.example.org", "example.org", false},
	} {
		if got := Covers(row.domain, row.host); got != row.covers {
			t.Errorf("%s covers %s: %v", row.domain, row.host, got)
		}
	}
}

// TestPorts: a job gets so many ports of one name, or of one address, and no more, also beside many
// hosts, in one question or in many, and after a restart or a move; a site on three ports, and a
// domain of many hosts with one each, get all they have.
func TestPorts(t *testing.T) {
	for _, name := range []string{"example.org", "www.example.org", "a.b.example.org", "192.0.2.7", "[2001:db8::1]"} {
		disk := make(kvtest.Map)
		s := newStore(t, disk, DefaultHosts)
		var at []string
		for port := range 300 {
			at = append(at, fmt.Sprintf("%s:%d", name, 8000+port))
		}
		got := s.admit(t, one, append(slices.Clone(at[:MaxPorts+4]), name)...)
		if n := slices.Index(got, Ported); n != MaxPorts || got[MaxPorts+4] != Admitted {
			t.Errorf("%s: in one question %v", name, got)
		}
		for i, host := range at {
			if i%100 == 0 {
				s = newStore(t, disk, DefaultHosts) // a restart
			}
			if v := s.admit(t, one, host)[0]; (v == Admitted) != (i < MaxPorts) {
				t.Errorf("%s: %v", host, v)
			}
		}
		var kept []kv.Record
		for key, value := range disk {
			kept = append(kept, kv.Record{Key: []byte(key), Value: value})
		}
		next := newStore(t, make(kvtest.Map), DefaultHosts)
		next.admit(t, one, at[200]) // was asked before the records came
		if _, err := next.Import(kept); err != nil {
			t.Fatal(err)
		}
		if v := next.admit(t, one, at[0], at[201]); !slices.Equal(v, []Verdict{Admitted, Ported}) {
			t.Errorf("%s: after a move %v", name, v)
		}
		if v := s.admit(t, two, at[299]); v[0] != Admitted {
			t.Errorf("%s: in another job %v", name, v)
		}
	}
	var honest []string
	for i := range 300 {
		honest = append(honest, fmt.Sprintf("h%d.example.com:8080", i))
	}
	honest = append(honest, "example.com:8080", "example.com:8443", "example.com:8888")
	if got := newStore(t, make(kvtest.Map), DefaultHosts).admit(t, one, honest...); slices.ContainsFunc(got, Verdict.TurnsAway) {
		t.Errorf("honest hosts: %v", got)
	}
}

// TestAdmit: so many hosts of a domain and no more, in each job, whatever the order and however
// often they are asked for, and after a restart as well.
func TestAdmit(t *testing.T) {
	disk := make(kvtest.Map)
	s := newStore(t, disk, 3)
	for _, row := range []struct {
		name string
		id   job.ID
		host []string
		want []Verdict
	}{
		{"the first", one, []string{"a.example.org", "b.example.org"}, []Verdict{Admitted, Admitted}},
		{"one twice, and the last", one, []string{"b.example.org", "c.example.org", "c.example.org"}, []Verdict{Admitted, Admitted, Admitted}},
		{"too many", one, []string{"d.example.org", "example.org:81"}, []Verdict{Crowded, Crowded}},
		{"those that are admitted still are", one, []string{"a.example.org"}, []Verdict{Admitted}},
		{"the domain itself", one, []string{"example.org", "www.example.org"}, []Verdict{Admitted, Admitted}},
		{"another job", two, []string{"d.example.org"}, []Verdict{Admitted}},
		{"another domain", one, []string{"d.example.net"}, []Verdict{Admitted}},
	} {
		if got := s.admit(t, row.id, row.host...); !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
		s = newStore(t, disk, 3) // a restart
	}
	many := make([]string, 10)
	for i := range many {
		many[i] = fmt.Sprintf("h%d.example.com", i)
	}
	if got := s.admit(t, one, many...); slices.Index(got, Crowded) != 3 {
		t.Errorf("ten in one question: %v", got)
	}
	if got := newStore(t, make(kvtest.Map), 0).admit(t, one, many...); slices.Contains(got, Crowded) {
		t.Errorf("no bound: %v", got)
	}
	s.most = s.count
	if _, _, err := s.Admit(one, []string{"x.example.edu"}); !errors.Is(err, ErrFull) {
		t.Errorf("no room: %v", err)
	}
}

// TestOptOut: a domain's wish covers what is below it and nothing else, until it is withdrawn.
func TestOptOut(t *testing.T) {
	disk := make(kvtest.Map)
	s := newStore(t, disk, 10)
	now := time.UnixMilli(1_700_000_000_000)
	set := func(name string, on, want bool) {
		t.Helper()
		now = now.Add(time.Second)
		if changed, _, err := s.SetOptOut(now, name, on); err != nil || changed != want {
			t.Errorf("%s %v: changed %v, %v", name, on, changed, err)
		}
		s = newStore(t, disk, 10)
	}
	covered := func(host string, want Verdict) {
		t.Helper()
		if got := s.admit(t, one, host); got[0] != want {
			t.Errorf("%s: %d, want %d", host, got[0], want)
		}
	}
	set("docs.example.org", false, false)
	set("docs.example.org", true, true)
	set("docs.example.org", true, false)
	covered("docs.example.org", OptedOut)
	covered("a.docs.example.org:8080", OptedOut)
	covered("b.example.org", Admitted)
	covered("mydocs.example.org", Admitted)
	set("example.org", true, true)
	covered("b.example.org", OptedOut)
	set("example.org", false, true)
	covered("b.example.org", Admitted)
	covered("docs.example.org", OptedOut)
	set("docs.example.org", false, true)
	covered("docs.example.org", Admitted)
	var hosts []string
	if err := s.Hosts("example.org", func(h string) bool { hosts = append(hosts, h); return true }); err != nil || !slices.Contains(hosts, "b.example.org") {
		t.Errorf("hosts: %v, %v", hosts, err)
	}
	for _, bad := range []string{"", "example.org:80"} {
		if _, _, err := s.SetOptOut(now, bad, true); !errors.Is(err, ErrRecord) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	for i := range MaxOptOuts + 1 {
		_, _, err := s.SetOptOut(now, fmt.Sprintf("h%d.example.net", i), true)
		if (err != nil) != (i == MaxOptOuts) {
			t.Fatalf("opt-out %d: %v", i, err)
		}
	}
}

// TestMove: records that go elsewhere, in parts, twice and over others, end as the union, whose
// latest wish counts.
func TestMove(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	from, to := newStore(t, make(kvtest.Map), 10), newStore(t, make(kvtest.Map), 10)
	for _, s := range []*Store{from, to} {
		s.admit(t, one, "both.example.org")
		if _, _, err := s.SetOptOut(now, "out.example.org", true); err != nil {
			t.Fatal(err)
		}
	}
	from.admit(t, one, "from.example.org", "other.example.net")
	to.admit(t, two, "to.example.org")
	if _, _, err := from.SetOptOut(now, "out.example.org", false); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, k := range slices.Sorted(maps.Keys(from.records.(kvtest.Map))) {
			if _, err := to.Import([]kv.Record{{Key: []byte(k), Value: from.records.(kvtest.Map)[k]}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if o, err := to.OptOut("out.example.org"); err != nil || o != nil {
		t.Errorf("an earlier wish came back: %+v, %v", o, err)
	}
	if n := len(to.records.(kvtest.Map)); n != 5 || to.count != n {
		t.Errorf("%d records, %d counted, want 5", n, to.count)
	}
	half := ring.Pos{0x80}
	for _, arc := range [][2]ring.Pos{{{}, half}, {half, {}}} {
		if _, err := to.Remove(arc[0], arc[1]); err != nil {
			t.Fatal(err)
		}
	}
	if len(to.records.(kvtest.Map)) != 0 || to.count != 0 {
		t.Errorf("%d records left, %d counted", len(to.records.(kvtest.Map)), to.count)
	}
}

// FuzzImport: no record does harm, and one that is taken lies where it belongs.
func FuzzImport(f *testing.F) {
	source := make(kvtest.Map)
	s := newStore(f, source, 10)
	s.admit(f, one, "a.example.org")
	if _, _, err := s.SetOptOut(time.UnixMilli(5), "example.org", true); err != nil {
		f.Fatal(err)
	}
	for k, v := range source {
		f.Add([]byte(k), v)
		f.Add([]byte(k), v[:len(v)-1])
	}
	f.Add([]byte{}, []byte{1})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		into := make(kvtest.Map)
		s := newStore(t, into, 10)
		if _, err := s.Import([]kv.Record{{Key: key, Value: value}}); err != nil {
			if len(into) > 0 {
				t.Errorf("refused and taken: %v", err)
			}
			return
		}
		if !bytes.Equal(into[string(key)], value) {
			t.Errorf("taken under %x: %x, kept %x", key, value, into[string(key)])
		}
		if again := newStore(t, make(kvtest.Map), 10); again != nil {
			if _, err := again.Import([]kv.Record{{Key: key, Value: value}}); err != nil {
				t.Errorf("taken once: %v", err)
			}
		}
	})
}

// TestOptOutOfRecord: for hosts below an opt-out in a record of another owner there is no verdict
// until the site was checked; a withdrawal in a record changes nothing before.
func TestOptOutOfRecord(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	const host, name = "a.out.example.org", "out.example.org"
	for _, before := range []bool{false, true} {
		from, to := newStore(t, make(kvtest.Map), 10), newStore(t, make(kvtest.Map), 10)
		to.ProveOptOuts = true
		stores := []*Store{from}
		if before {
			stores = append(stores, to)
		}
		for _, s := range stores {
			if _, _, err := s.SetOptOut(now, name, true); err != nil {
				t.Fatal(err)
			}
		}
		if before {
			if _, _, err := from.SetOptOut(now, name, false); err != nil {
				t.Fatal(err)
			}
		}
		for k, v := range from.records.(kvtest.Map) {
			if _, err := to.Import([]kv.Record{{Key: []byte(k), Value: v}}); err != nil {
				t.Fatal(err)
			}
		}
		want := Unknown
		if before {
			want = OptedOut
		}
		if c, err := to.NextClaim(); c != nil || err != nil {
			t.Errorf("a claim that nobody asked for: %v, %v", c, err)
		}
		if v, _, err := to.Admit(one, []string{host}); err != nil || v[0] != want {
			t.Errorf("unproved: verdict %v, %v", v, err)
		}
		c, err := to.NextClaim()
		if err != nil || c == nil || c.Domain != name || c.On == before {
			t.Fatalf("claim %+v, %v", c, err)
		}
		if changed, _, err := to.SetOptOut(now, name, c.On); err != nil || !changed {
			t.Errorf("proved: %v, %v", changed, err)
		}
		want = OptedOut
		if before {
			want = Admitted
		}
		if v, _, err := to.Admit(one, []string{host}); err != nil || v[0] != want {
			t.Errorf("proved: verdict %v, %v", v, err)
		}
	}
}
