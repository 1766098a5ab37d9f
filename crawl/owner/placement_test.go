package owner_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/robots"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// TestOrderOfGrants: smaller depths first, then arrival, jobs in turn, and no more than asked for.
func TestOrderOfGrants(t *testing.T) {
	s := newScene(t, nil)
	second := *s.jobs[s.id].spec
	second.ID = job.NewID()
	s.jobs[second.ID] = &jobEntry{spec: &second, state: job.StateRunning}
	s.post(2, "http://a.example/deep")
	s.post(1, "http://a.example/b", "http://a.example/a", "http://a.example/c")
	s.do(func(o *owner.Owner) { o.Links(links(second.ID, 1, "http://a.example/x", "http://a.example/y")) })
	g := s.lease("w", "a.example", 4)
	if got := granted(g); fmt.Sprint(got) != "[http://a.example/b http://a.example/a http://a.example/x http://a.example/y]" || !g.GetMore() {
		t.Errorf("granted %v, more %v", got, g.GetMore())
	}
	g = s.ask("w", "a.example", g.GetEpoch(), 10)
	if got := granted(g); fmt.Sprint(got) != "[http://a.example/c http://a.example/deep]" || g.GetMore() {
		t.Errorf("then %v, more %v", got, g.GetMore())
	}
}

// TestPlacement: a worker that says no is not asked again, a silent one after its time, in the end
// the owner takes the host itself.
func TestPlacement(t *testing.T) {
	s := newScene(t, nil)
	ready := s.post(0, pages("a.example", 3)...)
	if len(ready.Places) != 1 || !ready.Places[0].Tiny || ready.Places[0].Pending != 3 {
		t.Fatalf("places %+v", ready.Places)
	}
	var asked []string
	for range 4 {
		offers := s.placed(ready, fmt.Sprint("w", len(asked)))
		if len(offers) != 1 {
			t.Fatalf("offers %+v", offers)
		}
		asked = append(asked, offers[0].Worker)
		if len(asked)%2 == 0 {
			ready = s.wait(2 * time.Second)
		} else {
			ready = s.do(func(o *owner.Owner) { o.Declined(offers[0].Worker, offers[0].Hosts) })
		}
		if len(ready.Places) == 1 && len(ready.Places[0].Exclude) != len(asked) {
			t.Errorf("excludes %v after %v", ready.Places[0].Exclude, asked)
		}
	}
	if fmt.Sprint(asked) != "[w0 w1 w2 self]" {
		t.Errorf("asked %v", asked)
	}
	if d, _ := s.owner.Host("a.example"); d.Placed != "w2" || d.PlacedWhy != "test" {
		t.Errorf("%+v", d)
	}
}

// TestFullWorker: what a worker says it holds bounds what it is offered.
func TestFullWorker(t *testing.T) {
	s := newScene(t, nil)
	s.say("w", &wire.Session{Capacity: 32, Backlog: 10})
	var places []owner.Place
	for i := range 10 {
		places = append(places, s.post(0, pages(fmt.Sprintf("h%d.example", i), 10)...).Places...)
	}
	n := 0
	for _, place := range places {
		for _, offer := range s.do(func(o *owner.Owner) { o.Placed(place.Host, owner.Placement{Worker: "w"}) }).Offers {
			n += len(offer.Hosts)
		}
	}
	if len(places) != 10 || n != 3 {
		t.Errorf("%d hosts offered of %d", n, len(places))
	}
}

// TestCalibration: a host that grows slower several times in a row is given back to be placed anew.
func TestCalibration(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 100)...)
	g := s.lease("w", "a.example", 2)
	for i, ms := range []uint32{100, 150, 300, 120, 210, 500, 400} {
		url := granted(g)[0]
		f := s.got(url, link.OutcomeOK)
		f.DurationMs = ms
		s.tell("w", "a.example", g.GetEpoch(), f)
		g = s.ask("w", "a.example", g.GetEpoch(), 1)
		if want := i == 6; g.GetGiveBack() != want || want != (len(g.GetUrl()) == 0) {
			t.Errorf("after %d ms: %v", ms, g)
		}
	}
}

// robotsState is a robots.txt as a worker tells of it.
func robotsState(t testing.TB, fetched time.Time) []byte {
	t.Helper()
	state := robots.FromFetch(robots.Answer{Status: http.StatusOK, Body: []byte("User-agent: *")}, fetched, nil)
	state.Length, state.Home = 13, true
	raw, err := state.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestWhatAWorkerLearnt reaches the next one, but for the state of robots.txt, which the owner
// keeps.
func TestWhatAWorkerLearnt(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 10)...)
	rules := robotsState(t, s.now)
	g := s.lease("w1", "a.example", 1)
	s.say("w1", &wire.Session{Hosts: []*wire.HostWork{{
		Host: "a.example", Epoch: g.GetEpoch(), Release: true, OwedMs: 700, BackoffMs: 1500, BackoffReason: "429",
		Addrs: [][]byte{{192, 0, 2, 1}}, Returned: []*wire.Unfetched{{Job: s.id[:], Hash: link.Hash(s.id, granted(g)[0])}},
		Robots: []*wire.Robots{{Origin: "http://a.example", State: rules}, {Origin: "https://a.example", State: []byte("none")}, {Origin: "http://b.example", State: rules}},
	}}})
	s.wait(600 * time.Millisecond)
	s.open(s.now)
	s.wait(0)
	next := s.lease("w2", "a.example", 1)
	if next.GetNotBeforeMs() != 900 || next.GetBackoffReason() != "429" || len(next.GetAddrs()) != 1 {
		t.Errorf("granted %v", next)
	}
	if d, _ := s.owner.Host("a.example"); len(d.Robots) != 1 || !d.Robots["http://a.example"].Home || d.Robots["http://a.example"].Length != 13 {
		t.Errorf("the owner keeps %v", d.Robots)
	}
	if fmt.Sprint(granted(next)) != fmt.Sprint(granted(g)) {
		t.Errorf("granted %v, then %v", granted(g), granted(next))
	}
	if next.GetEpoch().GetCounter() != g.GetEpoch().GetCounter()+1 {
		t.Errorf("epoch %v after %v", next.GetEpoch(), g.GetEpoch())
	}
}

// TestManyHosts: more hosts than memory holds are all crawled, and found again after a start.
func TestManyHosts(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.MaxHosts = 10 })
	s.check = false
	const hosts = 600
	for i := range hosts {
		s.post(0, fmt.Sprintf("http://h%d.example/", i))
	}
	s.open(s.now)
	w := newWorker("w")
	for round := 0; s.owner.Totals().URLsPending+s.owner.Totals().URLsLeased > 0; round++ {
		if round > 2000 {
			t.Fatalf("%+v", s.owner.Totals())
		}
		s.now = s.now.Add(time.Second)
		settleBench(s.peer, w, s.now, s.do(nil))
		talk(t, s.peer, w, s.now, 4)
		for _, host := range sortedKeys(w.link(s.peer).leases) {
			for len(w.link(s.peer).leases[host].queue) > 0 {
				w.fetch(s.peer, host, s.now, func(k task) *wire.Fetched { return s.got(k.url, link.OutcomeOK) })
			}
		}
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
	if got := s.owner.Totals(); got.Pages != hosts || got.HostsOwned != hosts {
		t.Errorf("%+v", got)
	}
	var after ring.Pos
	n := 0
	for list := s.owner.HostsAfter(after, 7); len(list) > 0; list = s.owner.HostsAfter(after, 7) {
		for _, h := range list {
			if h.OK != 1 || h.Pending != 0 || h.Accepted != 1 {
				t.Errorf("%+v", h)
			}
		}
		n += len(list)
		after = ring.PosOf(list[len(list)-1].Key)
	}
	if n != hosts {
		t.Errorf("%d hosts listed, want %d", n, hosts)
	}
}
