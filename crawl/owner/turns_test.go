package owner_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// placeFor answers every Place of a step.
func (s *scene) placeFor(ready owner.Ready, p owner.Placement) {
	for _, place := range ready.Places {
		s.do(func(o *owner.Owner) { o.Placed(place.Host, p) })
	}
}

// giveBack ends a lease as a worker does whose window is done.
func (s *scene) giveBack(from string, g *wire.Grant, owed uint32, list ...*wire.Fetched) owner.Ready {
	_, ready := s.say(from, &wire.Session{
		Held:  []*wire.HostLease{{Host: g.GetHost(), Epoch: g.GetEpoch()}},
		Hosts: []*wire.HostWork{{Host: g.GetHost(), Epoch: g.GetEpoch(), Fetched: list, Release: true, OwedMs: owed}},
	})
	return ready
}

// TestTurns: a lease for one URL grants one, is given back with it, and the host is placed anew, so
// that estimators take turns and the site sees one worker at a time (papers 5).
func TestTurns(t *testing.T) {
	s := newScene(t, nil)
	ready := s.post(0, pages("a.example", 20)...)
	seen := make(map[string]string)
	var last owner.Epoch
	for turn := range 6 {
		worker := fmt.Sprint("w", turn%3)
		s.placeFor(ready, owner.Placement{Worker: worker, URLs: 1})
		g := s.ask(worker, "a.example", nil, 30)
		if len(g.GetUrl()) != 1 || !g.GetGiveBack() || g.GetMore() {
			t.Fatalf("turn %d: granted %v, give back %v, more %v; want one URL to be given back with", turn, granted(g), g.GetGiveBack(), g.GetMore())
		}
		if reply, _ := s.say("other", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Want: 1}}}); len(reply.GetGrants()) != 0 {
			t.Fatalf("turn %d: two workers at once", turn)
		}
		url := granted(g)[0]
		if by, again := seen[url]; again {
			t.Errorf("%s to %s and to %s", url, by, worker)
		}
		seen[url] = worker
		epoch := owner.Epoch{Counter: g.GetEpoch().GetCounter(), Peer: string(g.GetEpoch().GetPeer())}
		if !epoch.After(last) {
			t.Errorf("epoch %v after %v", epoch, last)
		}
		last = epoch
		if ready = s.giveBack(worker, g, 0, s.got(url, link.OutcomeOK)); len(ready.Places) == 0 {
			ready = s.wait(time.Second)
		}
		if len(ready.Places) != 1 {
			t.Fatalf("turn %d: places %+v, want the host to be placed anew", turn, ready.Places)
		}
	}
	s.placeFor(ready, owner.Placement{Worker: "w"})
	if g := s.ask("w", "a.example", nil, 30); len(g.GetUrl()) != 14 || g.GetGiveBack() {
		t.Errorf("without a bound %d URLs, give back %v; want the other 14", len(g.GetUrl()), g.GetGiveBack())
	}
}

// TestTurnsBoundAllGrantsOfALease: a bound of several URLs holds over the grants of the lease
// together, and a worker that holds nothing more is not kept.
func TestTurnsBoundAllGrantsOfALease(t *testing.T) {
	s := newScene(t, nil)
	s.placeFor(s.post(0, pages("a.example", 20)...), owner.Placement{Worker: "w", URLs: 5})
	g := s.ask("w", "a.example", nil, 3)
	if len(g.GetUrl()) != 3 || g.GetGiveBack() || !g.GetMore() {
		t.Fatalf("granted %d, give back %v, more %v", len(g.GetUrl()), g.GetGiveBack(), g.GetMore())
	}
	g = s.ask("w", "a.example", g.GetEpoch(), 9)
	if len(g.GetUrl()) != 2 || !g.GetGiveBack() {
		t.Errorf("then %d, give back %v; want the other two of five", len(g.GetUrl()), g.GetGiveBack())
	}
	if g = s.ask("w", "a.example", g.GetEpoch(), 9); len(g.GetUrl()) != 0 || !g.GetGiveBack() {
		t.Errorf("beyond the bound %v", granted(g))
	}
}

// TestADeclinedTurnLeavesNoBound: the bound belongs to the worker that was chosen, and not to
// whoever takes the host in its place.
func TestADeclinedTurnLeavesNoBound(t *testing.T) {
	s := newScene(t, nil)
	s.placeFor(s.post(0, pages("a.example", 20)...), owner.Placement{Worker: "w1", URLs: 1})
	ready := s.do(func(o *owner.Owner) { o.Declined("w1", []string{"a.example"}) })
	s.placeFor(ready, owner.Placement{Worker: "w2"})
	if g := s.ask("w2", "a.example", nil, 30); len(g.GetUrl()) != 20 || g.GetGiveBack() {
		t.Errorf("granted %d, give back %v", len(g.GetUrl()), g.GetGiveBack())
	}
}

// TestPaceGoesWithTheLease: by how much a host is to be asked less often belongs to the worker that
// was chosen with it, and is told once.
func TestPaceGoesWithTheLease(t *testing.T) {
	for _, tt := range []struct {
		pace float64
		want uint32
	}{{0, 0}, {1, 0}, {2.5, 250}, {1e9, wire.MaxPacePct}} {
		s := newScene(t, nil)
		s.placeFor(s.post(0, pages("a.example", 20)...), owner.Placement{Worker: "w", URLs: 5, Pace: tt.pace})
		g := s.ask("w", "a.example", nil, 3)
		if more := s.ask("w", "a.example", g.GetEpoch(), 9); g.GetPacePct() != tt.want || more.GetPacePct() != 0 {
			t.Errorf("pace %v is told as %d %%, then %d; want %d", tt.pace, g.GetPacePct(), more.GetPacePct(), tt.want)
		}
	}
	s := newScene(t, nil)
	s.placeFor(s.post(0, pages("a.example", 20)...), owner.Placement{Worker: "w1", Pace: 4})
	s.placeFor(s.do(func(o *owner.Owner) { o.Declined("w1", []string{"a.example"}) }), owner.Placement{Worker: "w2"})
	if g := s.ask("w2", "a.example", nil, 3); g.GetPacePct() != 0 {
		t.Errorf("another worker is told %d %%", g.GetPacePct())
	}
}

// TestRequestsThatMeasure: while candidates may send requests to a host nobody fetches from it, and
// politeness is owed after the last of them (papers 5: HEAD probes count as requests).
func TestRequestsThatMeasure(t *testing.T) {
	reserving := func(_ *wire.JobSpec, c *owner.Config) { c.RequestTime = 30 * time.Second }
	tests := []struct {
		name string
		// answer is how long after the question the placement comes, and until when after that
		// politeness is owed; 0: nothing was sent.
		answer, owed time.Duration
		want         time.Duration // that the worker waits
	}{
		{"nothing was sent", time.Second, 0, 0},
		{"the last request a moment ago", 10 * time.Second, 900 * time.Millisecond, 900 * time.Millisecond},
		{"no end to it", time.Second, 10 * 24 * time.Hour, 24 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, reserving)
			ready := s.post(0, pages("a.example", 20)...)
			if len(ready.Places) != 1 || !ready.Places[0].RequestsUntil.Equal(s.now.Add(30*time.Second)) {
				t.Fatalf("places %+v", ready.Places)
			}
			// A worker that asks by itself meanwhile waits for the end of it.
			if reply, _ := s.say("w0", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Want: 1}}}); len(reply.GetGrants()) == 1 {
				t.Fatal("granted while it is measured")
			}
			p := owner.Placement{Worker: "w"}
			s.wait(tt.answer)
			if tt.owed > 0 {
				p.NotBefore = s.now.Add(tt.owed)
			}
			s.placeFor(ready, p)
			if g := s.ask("w", "a.example", nil, 1); g.GetNotBeforeMs() != uint32(tt.want.Milliseconds()) {
				t.Errorf("the worker waits for %d ms, want %v", g.GetNotBeforeMs(), tt.want)
			}
		})
	}
	t.Run("no answer", func(t *testing.T) {
		s := newScene(t, reserving)
		s.post(0, pages("a.example", 20)...)
		if ready := s.wait(29 * time.Second); len(ready.Places) != 0 {
			t.Error("placed anew while requests may be made")
		}
		s.wait(2 * time.Second)
		ready := s.wait(time.Second)
		if len(ready.Places) != 1 || ready.Places[0].NotBefore.After(s.now) {
			t.Errorf("places %+v, want the host once more", ready.Places)
		}
	})
	t.Run("a small host", func(t *testing.T) {
		s := newScene(t, reserving)
		if ready := s.post(0, pages("a.example", 3)...); len(ready.Places) != 1 || !ready.Places[0].RequestsUntil.IsZero() {
			t.Errorf("places %+v, want one without requests", ready.Places)
		}
	})
	t.Run("it survives a crash", func(t *testing.T) {
		s := newScene(t, reserving)
		s.post(0, pages("a.example", 20)...)
		s.wait(time.Second)
		s.open(s.now)
		ready := s.do(nil)
		for range 40 {
			if len(ready.Places) > 0 {
				break
			}
			ready = s.wait(time.Second)
		}
		if len(ready.Places) != 1 || s.now.Sub(epochStart) < 28*time.Second {
			t.Errorf("%v later: places %+v, want none before the requests are over", s.now.Sub(epochStart), ready.Places)
		}
	})
}

// TestSlowerHostsAreMeasuredAnew: what was measured is told with the next question, and that it
// does not hold any more where fetches have grown slower.
func TestSlowerHostsAreMeasuredAnew(t *testing.T) {
	s := newScene(t, nil)
	found := []owner.Measurement{{Peer: "w", RTTUs: 7000}}
	s.placeFor(s.post(0, pages("a.example", 100)...), owner.Placement{Worker: "w", Measured: found})
	placed := s.now
	g := s.ask("w", "a.example", nil, 1)
	for _, ms := range []uint32{100, 900, 900, 900} {
		s.now = s.now.Add(100 * time.Millisecond)
		f := s.got(granted(g)[0], link.OutcomeOK)
		f.DurationMs = ms
		s.tell("w", "a.example", g.GetEpoch(), f)
		if ms == 900 && len(g.GetUrl()) == 0 {
			break
		}
		next := s.ask("w", "a.example", g.GetEpoch(), 1)
		if len(next.GetUrl()) == 0 {
			break
		}
		g = next
	}
	ready := s.giveBack("w", g, 0)
	if len(ready.Places) == 0 {
		ready = s.wait(time.Second)
	}
	if len(ready.Places) != 1 {
		t.Fatalf("places %+v", ready.Places)
	}
	p := ready.Places[0]
	if !p.Remeasure || fmt.Sprint(p.Measured) != fmt.Sprint(found) || !p.MeasuredAt.Equal(placed) {
		t.Errorf("remeasure %v, measured %v at %v; want all of it, at %v", p.Remeasure, p.Measured, p.MeasuredAt, placed)
	}
}

// TestFetchedIsToldOf: who wants to learn from fetches hears of each report with its worker.
func TestFetchedIsToldOf(t *testing.T) {
	var heard []string
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) {
		c.Fetched = func(host string, _ [][]byte, worker string, w *wire.HostWork) {
			if n := len(w.GetFetched()); n > 0 {
				heard = append(heard, fmt.Sprint(host, " ", worker, " ", n))
			}
		}
	})
	s.post(0, pages("a.example", 10)...)
	g := s.lease("w", "a.example", 2)
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK), s.got(granted(g)[1], link.OutcomeOK))
	s.ask("w", "a.example", g.GetEpoch(), 1)
	if fmt.Sprint(heard) != "[a.example w 2]" {
		t.Errorf("heard %q", heard)
	}
}

// TestDomainsHaveTurns: while there is room to look for few workers at a time the registrable
// domains of the hosts that wait have turns, so that a farm of hosts does not keep others waiting.
func TestDomainsHaveTurns(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.MaxPlacing = 4 })
	s.check = false
	var farm []string
	for i := range 500 {
		farm = append(farm, fmt.Sprintf("http://h%d.farm.example/", i))
	}
	waiting := s.post(0, farm...).Places
	s.post(0, "http://a.example/", "http://b.example/", "http://h500.farm.example/", "http://x.c.example/", "http://y.c.example/")
	var asked []string
	for len(asked) < 16 && len(waiting) > 0 {
		p := waiting[0]
		asked = append(asked, p.Host)
		s.do(func(o *owner.Owner) { o.Placed(p.Host, owner.Placement{Worker: "w"}) })
		_, ready := s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: p.Host, Want: 1}}})
		waiting = append(waiting[1:], ready.Places...)
	}
	for _, host := range []string{"a.example", "b.example", "x.c.example", "y.c.example"} {
		if !slices.Contains(asked, host) {
			t.Errorf("%s does not get its turn: %v", host, asked)
		}
	}
}
