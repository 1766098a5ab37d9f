package owner_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// wide are links to the front pages of n hosts.
func wide(from, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://n%d.example/", from+i))
	}
	return urls
}

// TestNewHostsAreNotScanned: of a host that is new nothing is searched, neither in the store nor
// among what the step has written.
func TestNewHostsAreNotScanned(t *testing.T) {
	const hosts = 500
	s := newScene(t, nil)
	s.check = false
	s.post(0, "http://a.example/")
	g := s.lease("w", "a.example", 1)
	before := s.store.Scans
	s.tell("w", "a.example", g.GetEpoch(), s.got("http://a.example/", link.OutcomeOK, wide(0, hosts)...))
	if n := s.store.Scans - before; n > hosts/10 {
		t.Errorf("%d scans of the store for a page that links to %d new hosts", n, hosts)
	}
	if got := s.owner.Totals().HostsOwned; got != 1+hosts {
		t.Errorf("%d hosts, want %d", got, 1+hosts)
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
}

// pieces are steps that have room for one piece of work each, until through.
func (s *scene) pieces(fn func(o *owner.Owner) (through bool)) (steps int) {
	s.t.Helper()
	for through := false; !through; steps++ {
		s.do(func(o *owner.Owner) {
			o.Within(func() bool { return false })
			through = fn(o)
		})
		if steps > 1000 {
			s.t.Fatal("no end after 1000 steps")
		}
	}
	return steps
}

// TestLongPageTakesManySteps: the links of a page are taken in over as many steps as they need, its
// outcome with the last of them; a crash in between loses nothing but those steps, and whatever was
// on its way is done again.
func TestLongPageTakesManySteps(t *testing.T) {
	const page, hosts = "http://a.example/", 3000
	s := newScene(t, nil)
	s.check = false // of each step: it reads everything
	s.post(0, page)
	g := s.lease("w", "a.example", 1)
	m := &wire.Session{
		Incarnation: 1, Held: []*wire.HostLease{{Host: "a.example", Epoch: g.GetEpoch()}},
		Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Fetched: []*wire.Fetched{s.got(page, link.OutcomeOK, wide(0, hosts)...)}}},
	}
	var v *owner.Visit
	steps, last := 0, int64(0)
	visit := func(o *owner.Owner) bool {
		if v == nil {
			v = o.Visit("w", m)
		}
		through := v.Go()
		steps++
		n := o.Totals().HostsOwned
		if n-last > 129 {
			t.Errorf("step %d took in %d hosts", steps, n-last)
		}
		last = n
		return through
	}
	for range 5 {
		s.do(func(o *owner.Owner) {
			o.Within(func() bool { return false })
			visit(o)
		})
	}
	if f := s.fate(page); f.Final.Outcome != link.OutcomeNone {
		t.Errorf("the page is said to be done (%v) before its links are all here", f.Final.Outcome)
	}
	s.crash(s.now, rand.New(rand.NewPCG(1, 2)))
	if err := ownertest.Check(s.owner); err != nil {
		t.Fatal(err)
	}
	v, last = nil, s.owner.Totals().HostsOwned
	if last < 500 {
		t.Errorf("%d hosts are left after a crash in the sixth step", last)
	}
	if n := s.pieces(visit); n < hosts/128-5 {
		t.Errorf("the page took %d steps", n)
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Fatal(err)
	}
	if n := s.owner.Totals().HostsOwned; n != 1+hosts {
		t.Errorf("%d hosts, want %d", n, 1+hosts)
	}
	if f := s.fate(page); f.Final.Outcome != link.OutcomeOK {
		t.Errorf("the page ended as %v", f.Final.Outcome)
	}
	if err := v.Reply().Validate(); err != nil {
		t.Error(err)
	}
}

// TestLongDeliveryTakesManySteps: so are links that come from another owner.
func TestLongDeliveryTakesManySteps(t *testing.T) {
	s := newScene(t, nil)
	s.check = false
	var d *owner.Delivery
	m := links(s.id, 1, wide(0, wire.MaxLinks)...)
	steps := s.pieces(func(o *owner.Owner) bool {
		if d == nil {
			d = o.Delivery(m)
		}
		return d.Go()
	})
	if n := s.owner.Totals().HostsOwned; steps != wire.MaxLinks/128 || n != wire.MaxLinks || len(d.Reply().GetBusy())+len(d.Reply().GetMoved()) > 0 {
		t.Errorf("%d steps, %d hosts, %d links not taken", steps, n, len(d.Reply().GetBusy())+len(d.Reply().GetMoved()))
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
}

// TestLongImportTakesManySteps: so are records that come from another owner, and a crash in between
// is the same as a push that broke off.
func TestLongImportTakesManySteps(t *testing.T) {
	const hosts = 100
	from := newScene(t, nil)
	from.check = false
	from.post(0, wide(0, hosts)...)
	kvs := exported(t, from.peer)
	s := newScene(t, nil)
	s.check = false
	var m *owner.Merge
	last := int64(0)
	merge := func(o *owner.Owner) bool {
		if m == nil {
			m = o.Merge(kvs, time.Time{})
		}
		through, err := m.Go()
		if err != nil {
			t.Fatal(err)
		}
		n := o.Totals().HostsOwned
		if n-last > 1 {
			t.Errorf("a step took in %d hosts", n-last)
		}
		last = n
		return through
	}
	for range 150 {
		s.do(func(o *owner.Owner) {
			o.Within(func() bool { return false })
			if merge(o) {
				t.Error("150 steps of one record are all")
			}
		})
	}
	s.crash(s.now, rand.New(rand.NewPCG(1, 2)))
	if err := ownertest.Check(s.owner); err != nil {
		t.Fatal(err)
	}
	if m, last = nil, s.owner.Totals().HostsOwned; last < 20 {
		t.Errorf("%d hosts are left after a crash in the 151st step", last)
	}
	if n := s.pieces(merge); n != len(kvs) {
		t.Errorf("%d records took %d steps", len(kvs), n)
	}
	if got := s.owner.Totals(); got.HostsOwned != hosts || got.URLsSeen != hosts {
		t.Errorf("%d hosts with %d URLs, want %d of each", got.HostsOwned, got.URLsSeen, hosts)
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
}

// TestVisitIsASignOfLife: as long as what a worker says is being taken in, the leases that it holds
// by its own word do not run out, and others do; once that is done they are over a TTL later at the
// latest.
func TestVisitIsASignOfLife(t *testing.T) {
	const page = "http://a.example/"
	s := newScene(t, nil)
	s.check = false
	s.post(0, page, "http://b.example/", "http://c.example/")
	epoch := make(map[string]*wire.Epoch)
	for _, host := range []string{"a.example", "b.example", "c.example"} {
		epoch[host] = s.lease("w", host, 1).GetEpoch()
	}
	m := &wire.Session{
		Incarnation: 1, Seq: 2, Ack: 1, Held: []*wire.HostLease{{Host: "a.example", Epoch: epoch["a.example"]}, {Host: "b.example", Epoch: epoch["b.example"]}},
		Hosts: []*wire.HostWork{
			{Host: "a.example", Epoch: epoch["a.example"], Fetched: []*wire.Fetched{s.got(page, link.OutcomeOK, wide(0, wire.PieceLinks)...)}},
			// Late, as the lease is not held any more: it renews nothing.
			{Host: "c.example", Epoch: epoch["c.example"], Fetched: []*wire.Fetched{s.got("http://c.example/x", link.OutcomeHTTPError)}},
		},
	}
	var v *owner.Visit
	leased := func(want int64, when string) {
		t.Helper()
		if n := s.owner.Totals().HostsLeased; n != want {
			t.Errorf("%d hosts are leased %s, want %d", n, when, want)
		}
	}
	for through := false; !through; {
		s.now = s.now.Add(time.Second) // a busy machine
		s.do(func(o *owner.Owner) {
			o.Within(func() bool { return false })
			if v == nil {
				v = o.Visit("w", m)
			}
			through = v.Go()
		})
	}
	if took := s.now.Sub(epochStart); took < 16*time.Second {
		t.Fatalf("the visit took %v", took)
	}
	leased(2, "after the visit")
	if len(v.Reply().GetRevoked()) != 1 {
		t.Errorf("revoked: %v", v.Reply().GetRevoked())
	}
	s.wait(8 * time.Second)
	leased(0, "a TTL later")
	for _, host := range []string{"b.example", "c.example"} {
		if f := s.fate("http://" + host + "/"); f.State != "pending" {
			t.Errorf("the URL of %s is %s", host, f.State)
		}
	}
}

// counting counts how often it is asked.
type counting struct {
	owner.Ring
	asked int
}

func (c *counting) Mine(key ring.Key) bool {
	c.asked++
	return c.Ring.Mine(key)
}

// TestHostsThatWaitCostNothing: hosts for which there is no room are not looked at again and again.
func TestHostsThatWaitCostNothing(t *testing.T) {
	const hosts = 2000
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.MaxPlacing, cfg.PlaceTimeout = 8, time.Hour })
	s.check = false
	s.post(0, wide(0, hosts)...)
	asked := &counting{Ring: s.ring}
	s.ring = asked
	s.open(s.now)
	ready := s.do(nil)
	for range 20 { // the walk over what waits on disk
		ready.Places = append(ready.Places, s.wait(time.Second).Places...)
	}
	if len(ready.Places) != 8 {
		t.Fatalf("%d hosts are placed at once, want 8", len(ready.Places))
	}
	asked.asked = 0
	for range 20 {
		s.wait(time.Second)
	}
	if asked.asked > hosts/10 {
		t.Errorf("%d looks at %d hosts that wait in 20 steps", asked.asked, hosts)
	}
	placed := map[string]bool{}
	for list := ready.Places; len(list) > 0; { // each of them has its turn
		var next []owner.Place
		for _, p := range list {
			placed[p.Host] = true
			next = append(next, s.do(func(o *owner.Owner) { o.Placed(p.Host, owner.Placement{Worker: "w"}) }).Places...)
			g, r := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: p.Host, Want: 1}}})
			if len(g.GetGrants()) != 1 {
				t.Fatalf("%s is not granted", p.Host)
			}
			s.tell("w", p.Host, g.GetGrants()[0].GetEpoch(), s.got(granted(g.GetGrants()[0])[0], link.OutcomeOK))
			next = append(next, r.Places...)
		}
		if list = next; len(list) == 0 && len(placed) < hosts {
			list = s.wait(time.Second).Places // there may be more on disk
		}
	}
	if len(placed) != hosts {
		t.Errorf("%d of %d hosts were placed", len(placed), hosts)
	}
}

// TestSmallHostsGoOneByOne: a peer that hands over thousands of hosts writes about one batch for
// each, and leaves no deleted ranges behind, each of which makes every later read slower.
func TestSmallHostsGoOneByOne(t *testing.T) {
	const hosts = 300
	s := newScene(t, nil)
	s.check = false
	s.post(0, wide(0, hosts)...)
	before := *s.store
	s.do(func(o *owner.Owner) {
		for i := range hosts {
			key := ring.HostKey(fmt.Sprintf("n%d.example", i))
			o.Remove(ring.PosOf(key), next(ring.PosOf(key)))
		}
	})
	if n := s.owner.Totals(); n.HostsOwned != 0 || n.URLsSeen != 0 {
		t.Errorf("%d hosts with %d URLs are left", n.HostsOwned, n.URLsSeen)
	}
	if n := s.store.Updates - before.Updates; n > hosts+10 {
		t.Errorf("%d batches for %d hosts", n, hosts)
	}
	if n := s.store.Ranges - before.Ranges; n > 0 {
		t.Errorf("%d ranges deleted", n)
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
	s.checkCopy()
}

// TestAllCounts: the books of all jobs at once are those of each.
func TestAllCounts(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 5)...)
	s.post(0, pages("b.example", 5)...)
	for _, host := range []string{"a.example", "b.example"} {
		g := s.lease("w", host, 1)
		s.tell("w", host, g.GetEpoch(), s.got(granted(g)[0], link.OutcomeTimeout)) // another try waits
		s.now = s.now.Add(time.Second)
	}
	all := s.owner.AllCounts()
	if got, want := all[s.id], s.owner.Counts(s.id); !reflect.DeepEqual(got, want) || want.Waiting != 2 || want.NextRetryS == 0 || len(all) != 1 {
		t.Errorf("all say %+v, the job %+v", got, want)
	}
}

// BenchmarkNewHosts takes pages that link to hosts of which nothing is known. What a link costs
// does not hang on how many there are.
func BenchmarkNewHosts(b *testing.B) {
	for _, n := range []int{256, 2048, 16384} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			next := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				p, id := benchPeer(b, &wire.JobSpec{}, owner.Config{})
				f := &wire.Fetched{Job: id[:], Url: []byte("http://h0.example/"), Outcome: uint32(link.OutcomeOK), Status: 200, FetchedMs: 1, RecordId: make([]byte, 16)}
				for _, url := range wide(next, n) {
					f.Links = append(f.Links, []byte(url))
				}
				next += n
				m := &wire.Session{Incarnation: 1, Seq: 1, Hosts: []*wire.HostWork{{Host: "h0.example", Fetched: []*wire.Fetched{f}}}}
				b.StartTimer()
				p.step(epochStart, func(o *owner.Owner) { o.Session("w", m) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/link")
		})
	}
}
