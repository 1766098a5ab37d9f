package owner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

// wishes is a list of opt-outs: what is in it is the beginning of URLs, or a host.
type wishes struct{ of []string }

func (w *wishes) Host(host string) string {
	if slices.Contains(w.of, host) {
		return "on the list"
	}
	return ""
}

func (w *wishes) URL(url string) string {
	for _, of := range w.of {
		if strings.HasPrefix(url, of) {
			return "on the list"
		}
	}
	return w.Host(link.Host(url))
}

// outcomes counts what became of a job's URLs.
func (s *scene) outcomes(want map[link.Outcome]int64) {
	s.t.Helper()
	c := s.owner.Counts(s.id)
	for o, n := range want {
		if c.Outcomes[o.String()] != n {
			s.t.Errorf("%d URLs are %v, want %d", c.Outcomes[o.String()], o, n)
		}
	}
	if c.Pending+c.Leased > 0 {
		s.t.Errorf("%d pending, %d leased", c.Pending, c.Leased)
	}
}

// TestOptOut: when a host opts out its lease ends, nobody gets another, all that waits is opted
// out, and links to it are turned away, also after a restart; until it is withdrawn. What its
// worker had under way is taken.
func TestOptOut(t *testing.T) {
	s := newScene(t, nil)
	urls := pages("a.example", 6)
	s.post(0, urls...)
	g := s.lease("w", "a.example", 2)
	var changed bool
	s.do(func(o *owner.Owner) { changed = o.OptOut("a.example", true, "host a.example") })
	if !changed {
		t.Error("nothing changed")
	}
	reply := s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK))
	if !slices.Contains(reply.GetRevoked(), "a.example") {
		t.Errorf("its worker hears %v", reply)
	}
	s.now = s.now.Add(10 * time.Second)
	s.crash(s.now, rand.New(rand.NewPCG(1, 1)))
	for range 3 {
		if ready := s.wait(time.Second); len(ready.Places)+len(ready.Offers) > 0 {
			t.Errorf("a worker is looked for: %+v", ready)
		}
	}
	s.outcomes(map[link.Outcome]int64{link.OutcomeOK: 1, link.OutcomeOptedOut: 5})
	if f := s.fate(urls[5]); !strings.Contains(f.Final.Detail, "host a.example") {
		t.Errorf("detail %q", f.Final.Detail)
	}
	const late = "http://a.example/late"
	s.post(0, late)
	if f := s.fate(late); f.State != "unknown" || !strings.Contains(f.Refusal, "opted out") {
		t.Errorf("a link to it: %+v", f)
	}
	if d, _ := s.owner.Host("a.example"); d.OptedOut == "" || d.OptedOutAt.IsZero() {
		t.Errorf("host: %+v", d)
	}
	if list := s.owner.OptedOut(9); !slices.Equal(list, []string{"a.example"}) {
		t.Errorf("opted out: %v", list)
	}
	s.wait(10 * time.Second) // nobody knows whether its worker of before the crash is gone
	s.do(func(o *owner.Owner) { o.OptOut("a.example", false, "") })
	s.post(0, late)
	if g := s.lease("w", "a.example", 9); !slices.Equal(granted(g), []string{late}) {
		t.Errorf("withdrawn: %v is granted", granted(g))
	}
	if list := s.owner.OptedOut(9); len(list) > 0 {
		t.Errorf("opted out: %v", list)
	}
	s.do(func(o *owner.Owner) {
		if o.OptOut("never.example", false, "") || !o.OptOut("never.example", true, "") || o.OptOut("never.example", true, "") {
			t.Error("a host never met")
		}
	})
}

// TestOptOutMerges: of two copies the later wish counts, and of two that are equally late the
// opt-out, in whatever order they come.
func TestOptOutMerges(t *testing.T) {
	wish := func(on ...bool) []kv.Record {
		s := newScene(t, nil)
		for _, on := range on {
			s.do(func(o *owner.Owner) { o.OptOut("a.example", on, "why") })
		}
		return s.export()
	}
	for _, row := range []struct {
		name string
		a, b []kv.Record
		want bool
	}{
		{"the only one", wish(true), nil, true},
		{"the later one", wish(true, false), wish(true), false},
		{"later again", wish(true, false), wish(true, false, true), true},
	} {
		for i, order := range [][][]kv.Record{{row.a, row.b}, {row.b, row.a, row.b}} {
			s := newScene(t, nil)
			for _, kvs := range order {
				s.do(func(o *owner.Owner) {
					if err := o.Import(kvs); err != nil {
						t.Fatal(err)
					}
				})
			}
			if d, _ := s.owner.Host("a.example"); (d.OptedOut != "") != row.want {
				t.Errorf("%s, order %d: %q", row.name, i, d.OptedOut)
			}
		}
	}
}

// export are all records of the hosts.
func (s *scene) export() (kvs []kv.Record) {
	s.t.Helper()
	s.do(func(o *owner.Owner) {
		if err := o.Export(ring.Pos{}, ring.Pos{}, func(key, value []byte) bool {
			kvs = append(kvs, kv.Record{Key: slices.Clone(key), Value: slices.Clone(value)})
			return true
		}); err != nil {
			s.t.Fatal(err)
		}
	})
	return kvs
}

// TestOwnList: what is on the peer's own list is not taken in, and not granted if it was taken in
// before; without it the rest goes on.
func TestOwnList(t *testing.T) {
	list := &wishes{of: []string{"b.example"}}
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.OptOuts = list })
	urls := pages("a.example", 20)
	s.post(0, append(urls, "http://b.example/")...)
	if f := s.fate("http://b.example/"); f.Refusal != "on the list" {
		t.Errorf("taken in: %+v", f)
	}
	list.of = append(list.of, "http://a.example/0") // ten of them
	s.do(func(o *owner.Owner) { o.OptOutsChanged() })
	g := s.lease("w", "a.example", 20)
	if got := granted(g); !slices.Equal(got, urls[10:]) {
		t.Errorf("granted: %v", got)
	}
	var done []*wire.Fetched
	for _, url := range granted(g) {
		done = append(done, s.got(url, link.OutcomeOK))
	}
	s.tell("w", "a.example", g.GetEpoch(), done...)
	s.outcomes(map[link.Outcome]int64{link.OutcomeOK: 10, link.OutcomeOptedOut: 10})
	s.post(0, pages("c.example", 3)...)
	g = s.lease("w", "c.example", 1)
	list.of = append(list.of, "c.example")
	s.do(func(o *owner.Owner) { o.OptOutsChanged() })
	s.tell("w", "c.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK))
	s.wait(time.Minute)
	s.outcomes(map[link.Outcome]int64{link.OutcomeOK: 11, link.OutcomeOptedOut: 12})
}

// TestAskedTwice: a message that asks for URLs of a host more than once is served once, so what
// came onto the list meanwhile counts once.
func TestAskedTwice(t *testing.T) {
	const host, out, in = "a.example", 700, 20 // more than one step concludes
	list := &wishes{}
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.OptOuts = list })
	s.post(0, "http://a.example/first")
	var urls []string
	for i := range out {
		urls = append(urls, fmt.Sprintf("http://a.example/out/%d", i))
	}
	for part := range slices.Chunk(urls, 100) {
		s.post(1, part...)
	}
	s.post(2, pages(host, in)...)
	g := s.lease("w", host, 1)
	list.of = append(list.of, "http://a.example/out/")
	work := &wire.HostWork{Host: host, Epoch: g.GetEpoch(), Want: 2}
	for got := 0; got == 0; {
		reply, _ := s.say("w", &wire.Session{Held: []*wire.HostLease{{Host: host, Epoch: g.GetEpoch()}}, Hosts: []*wire.HostWork{work, work, work}})
		if len(reply.GetGrants()) != 1 {
			t.Fatalf("%d grants", len(reply.GetGrants()))
		}
		got = len(granted(reply.GetGrants()[0]))
	}
	if c := s.owner.Counts(s.id); c.Outcomes[link.OutcomeOptedOut.String()] != out || c.Pending != in-2 {
		t.Errorf("%d opted out, %d pending; want %d and %d", c.Outcomes[link.OutcomeOptedOut.String()], c.Pending, out, in-2)
	}
}

// TestAdmission: a host waits until its domain's owner has spoken, which is asked once, and again
// if there is no answer; the answer holds over a restart. Hosts that no trap is made of wait for
// nobody.
func TestAdmission(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Admission = true })
	ready := s.post(0, "http://x.a.example/", "http://x.a.example/2", "http://a.example/", "http://www.b.example/")
	if len(ready.Admissions) != 1 || ready.Admissions[0] != (owner.Admission{Job: s.id, Host: "x.a.example"}) {
		t.Fatalf("asked for %v", ready.Admissions)
	}
	var placed []string
	for _, p := range ready.Places {
		placed = append(placed, p.Host)
	}
	if slices.Sort(placed); !slices.Equal(placed, []string{"a.example", "www.b.example"}) {
		t.Errorf("a worker is looked for: %v", placed)
	}
	first := ready.Admissions[0]
	if ready = s.post(1, "http://x.a.example/3"); len(ready.Admissions) > 0 {
		t.Errorf("asked again: %v", ready.Admissions)
	}
	if ready = s.wait(6 * time.Second); len(ready.Admissions) != 1 {
		t.Errorf("without an answer: %v", ready.Admissions)
	}
	ready = s.do(func(o *owner.Owner) { o.Admitted(first, domain.Admitted) })
	if len(ready.Places) != 1 || ready.Places[0].Host != "x.a.example" {
		t.Errorf("admitted: %+v", ready.Places)
	}
	s.now = s.now.Add(time.Minute)
	s.crash(s.now, rand.New(rand.NewPCG(1, 1)))
	if ready = s.wait(time.Second); len(ready.Admissions) > 0 {
		t.Errorf("asked again after a restart: %v", ready.Admissions)
	}
	if d, _ := s.owner.Host("x.a.example"); len(d.Jobs) != 1 || d.Jobs[0].Admission != domain.Admitted {
		t.Errorf("host: %+v", d.Jobs)
	}
}

// TestPortsOfAName: once a name has as many ports as it may, no other one of it is asked for or
// leaves a trace, and each says why; a seed's is crawled all the same, and the domain has other
// hosts.
func TestPortsOfAName(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, c *owner.Config) {
		c.Admission = true
		m.Seeds = append(m.GetSeeds(), []byte("http://x.a.example:8999/"))
	})
	ready := s.post(0, "http://x.a.example:8000/")
	s.do(func(o *owner.Owner) { o.Admitted(ready.Admissions[0], domain.Ported) })
	s.wait(time.Second)
	s.outcomes(map[link.Outcome]int64{link.OutcomeOutOfBudget: 1})
	if f := s.fate("http://x.a.example:8000/"); !strings.Contains(f.Final.Detail, "ports of its name") {
		t.Errorf("left: %+v", f)
	}
	for port := range 100 {
		if ready := s.post(1, fmt.Sprintf("http://x.a.example:%d/", 9000+port)); len(ready.Admissions)+len(ready.Places) > 0 {
			t.Fatalf("asked for %v", ready)
		}
	}
	if f := s.fate("http://x.a.example:9007/"); !strings.Contains(f.Refusal, "ports of its name") {
		t.Errorf("refused: %+v", f)
	}
	if n := s.owner.Totals().HostsOwned; n != 1 {
		t.Errorf("%d hosts are kept", n)
	}
	for i, url := range []string{"http://x.a.example:8999/", "http://y.a.example:8000/", "http://x.a.example/"} {
		if ready := s.post(1, url); len(ready.Admissions) != 1 {
			t.Errorf("%s: asked for %v", url, ready.Admissions)
		} else if i == 0 {
			s.do(func(o *owner.Owner) { o.Admitted(ready.Admissions[0], domain.Ported) })
			if d, _ := s.owner.Host("x.a.example:8999"); d.Jobs[0].Admission != domain.Admitted {
				t.Errorf("a seed's host: %+v", d.Jobs[0])
			}
		}
	}
}

// TestCrowdedDomain: what waits of a host that is not admitted is out of the budget; once a domain
// is known to be full nobody is asked for its hosts, and they leave no trace.
func TestCrowdedDomain(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.Admission = true })
	ready := s.post(0, "http://x.a.example/", "http://y.a.example/")
	for _, a := range ready.Admissions {
		s.do(func(o *owner.Owner) { o.Admitted(a, domain.Crowded) })
	}
	s.wait(time.Second)
	s.outcomes(map[link.Outcome]int64{link.OutcomeOutOfBudget: 2})
	for i := range 100 {
		if ready := s.post(1, fmt.Sprintf("http://z%d.a.example/", i)); len(ready.Admissions)+len(ready.Places) > 0 {
			t.Fatalf("asked for %v", ready)
		}
	}
	if f := s.fate("http://z7.a.example/"); !strings.Contains(f.Refusal, "limit") {
		t.Errorf("refused: %+v", f)
	}
	if n := s.owner.Totals().HostsOwned; n != 2 {
		t.Errorf("%d hosts are kept", n)
	}
	ready = s.post(1, "http://x.b.example/")
	s.do(func(o *owner.Owner) { o.Admitted(ready.Admissions[0], domain.OptedOut) })
	s.wait(time.Second)
	s.outcomes(map[link.Outcome]int64{link.OutcomeOutOfBudget: 2, link.OutcomeOptedOut: 1})
}

// TestSeedOfAFullDomain: a host that a seed is on is crawled whatever becomes of its domain, before
// or after it is admitted.
func TestSeedOfAFullDomain(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, c *owner.Config) {
		m.Seeds = append(m.Seeds, []byte("http://early.a.example/"), []byte("http://asked.a.example/"), []byte("http://later.a.example/"))
		c.Admission = true
	})
	verdicts := map[string]domain.Verdict{"early.a.example": domain.Admitted, "asked.a.example": domain.Crowded, "farm.a.example": domain.Crowded}
	for _, a := range s.post(0, "http://early.a.example/", "http://asked.a.example/", "http://farm.a.example/").Admissions {
		s.do(func(o *owner.Owner) { o.Admitted(a, verdicts[a.Host]) })
	}
	ready := s.post(0, "http://later.a.example/", "http://more.a.example/")
	if len(ready.Admissions) != 1 || ready.Admissions[0].Host != "later.a.example" {
		t.Fatalf("asked for %v", ready.Admissions)
	}
	s.do(func(o *owner.Owner) { o.Admitted(ready.Admissions[0], domain.Crowded) })
	s.wait(time.Minute)
	for _, name := range []string{"early.a.example", "asked.a.example", "later.a.example"} {
		g := s.lease("w", name, 1)
		s.giveBack("w", g, 0, s.got(granted(g)[0], link.OutcomeOK))
	}
	s.outcomes(map[link.Outcome]int64{link.OutcomeOutOfBudget: 1, link.OutcomeOK: 3})
}

// TestOptOutOfRecord: an opt-out in a record of another owner holds the host until the site was
// checked, and then applies or is dropped; a withdrawal changes nothing before. A crash changes
// nothing of that.
func TestOptOutOfRecord(t *testing.T) {
	record := func(on ...bool) []kv.Record {
		s := newScene(t, nil)
		for _, on := range on {
			s.do(func(o *owner.Owner) { o.OptOut("a.example", on, "host a.example") })
		}
		return s.export()
	}
	urls := pages("a.example", 3)
	for _, row := range []struct {
		name          string
		before        bool // the host has opted out before
		record        []kv.Record
		claims        bool
		out           bool // the claim
		shown, optOut bool
	}{
		{"opt-out, shown", false, record(true), true, true, true, true},
		{"opt-out, not shown", false, record(true), true, true, false, false},
		{"withdrawal, shown", true, record(true, false), true, false, true, false},
		{"withdrawal, not shown", true, record(true, false), true, false, false, true},
		{"the opt-out that is known", true, record(true, false, true), false, true, false, true},
		{"no opt-out", false, record(true, false), false, false, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.ProveOptOuts = true })
			if row.before {
				s.do(func(o *owner.Owner) { o.OptOut("a.example", true, "host a.example") })
			} else {
				s.post(0, urls...)
			}
			s.do(func(o *owner.Owner) {
				if err := o.Import(row.record); err != nil {
					t.Fatal(err)
				}
			})
			s.crash(s.now, rand.New(rand.NewPCG(1, 1)))
			c, ok := s.owner.NextClaim("")
			if ok != row.claims || ok && (c.Out != row.out || c.Why != "host a.example" || c.Host != "a.example") {
				t.Fatalf("claim %+v, %v", c, ok)
			}
			if _, again := s.owner.NextClaim(c.Host); again {
				t.Error("another claim")
			}
			if row.claims {
				for range 60 {
					if ready := s.wait(time.Second); len(ready.Places)+len(ready.Offers) > 0 {
						t.Fatalf("a worker is looked for: %+v", ready)
					}
				}
				if d, _ := s.owner.Host("a.example"); d.OptedOut == "" || d.OptedOutAt.IsZero() == row.before {
					t.Errorf("host: %+v", d)
				}
				if !row.before {
					for _, url := range urls {
						if f := s.fate(url); f.State != "pending" {
							t.Errorf("held: %+v", f)
						}
					}
				}
				s.do(func(o *owner.Owner) { o.OptOut(c.Host, c.Out == row.shown, c.Why) })
				if _, ok := s.owner.NextClaim(""); ok {
					t.Error("it is still to be checked")
				}
			}
			s.wait(time.Minute)
			if !row.before && row.optOut {
				s.outcomes(map[link.Outcome]int64{link.OutcomeOptedOut: 3})
			} else if s.post(0, urls...); !row.optOut {
				if g := s.lease("w", "a.example", 9); len(granted(g)) != 3 {
					t.Errorf("%v is granted", granted(g))
				}
			}
			if got := len(s.owner.OptedOut(9)) > 0; got != row.optOut {
				t.Errorf("opted out: %v", got)
			}
		})
	}
}
