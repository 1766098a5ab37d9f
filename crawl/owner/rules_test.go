package owner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

func TestLinksAreAdmitted(t *testing.T) {
	tests := []struct {
		name string
		link string
		m    func(*wire.Links)
		want bool
	}{
		{"in scope", "http://a.example/x", nil, true},
		{"out of scope", "http://a.test/x", nil, false},
		{"not canonical", "http://a.example/../x", nil, false},
		{"not canonical, by other rules", "http://a.example/%7Ex/../y", func(m *wire.Links) { m.Rules = link.RulesVersion + 1 }, true},
		{"no URL", "hello", nil, false},
		{"too deep", "http://a.example/x", func(m *wire.Links) { m.Depth = []uint32{4} }, false},
		{"deep enough", "http://a.example/x", func(m *wire.Links) { m.Depth = []uint32{3} }, true},
		{"a trap", "http://a.example" + strings.Repeat("/a", 60), nil, false},
		{"requisite", "http://a.example/x.png", func(m *wire.Links) { m.Kind = []byte{byte(link.KindRequisite)} }, false},
		{"sitemap", "http://a.example/sitemap.xml", func(m *wire.Links) { m.Kind = []byte{byte(link.KindSitemap)} }, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth = true, 3 })
			m := links(s.id, 0, test.link)
			if test.m != nil {
				test.m(m)
			}
			var reply *wire.LinksReply
			s.do(func(o *owner.Owner) { reply = o.Links(m) })
			if len(reply.GetBusy())+len(reply.GetMoved()) > 0 {
				t.Errorf("reply %v", reply)
			}
			if got := s.owner.Totals().URLsSeen == 1; got != test.want {
				t.Errorf("admitted %v, want %v", got, test.want)
			}
		})
	}
}

func TestLinksOfAnUnknownJobAreBusy(t *testing.T) {
	s := newScene(t, nil)
	other := job.NewID()
	m := links(s.id, 0, "http://a.example/1", "http://a.example/2")
	m.JobIds, m.Job = append(m.JobIds, other[:]), []uint32{1, 0}
	var reply *wire.LinksReply
	ready := s.do(func(o *owner.Owner) { reply = o.Links(m) })
	if !slices.Equal(reply.GetBusy(), []uint32{0}) || len(ready.NeedJobs) != 1 || ready.NeedJobs[0] != other {
		t.Errorf("reply %v, needs %v", reply, ready.NeedJobs)
	}
	spec := *s.jobs[s.id].spec
	spec.ID = other
	s.jobs[other] = &jobEntry{&spec, job.StateRunning}
	s.do(func(o *owner.Owner) { o.JobChanged(other) })
	s.do(func(o *owner.Owner) { reply = o.Links(m) })
	if len(reply.GetBusy()) != 0 || s.owner.Counts(other).Pending != 1 {
		t.Errorf("once it is known: %v, %+v", reply, s.owner.Counts(other))
	}
}

func TestHostsOfOthersAreMoved(t *testing.T) {
	s := newScene(t, nil)
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	var reply *wire.LinksReply
	s.do(func(o *owner.Owner) { reply = o.Links(links(s.id, 0, "http://a.example/", "http://b.example/")) })
	if !slices.Equal(reply.GetMoved(), []uint32{1}) || s.owner.Totals().HostsOwned != 1 {
		t.Errorf("reply %v", reply)
	}
	answer, _ := s.say("w", &wire.Session{
		Held:  []*wire.HostLease{{Host: "c.example", Epoch: &wire.Epoch{Counter: 1}}},
		Hosts: []*wire.HostWork{{Host: "b.example", Epoch: &wire.Epoch{Counter: 1}, Fetched: []*wire.Fetched{s.got("http://b.example/", link.OutcomeOK)}}},
	})
	if !slices.Equal(answer.GetMoved(), []string{"c.example", "b.example"}) {
		t.Errorf("session reply %v", answer)
	}
}

// TestOrderOfGrants: smaller depths first, then arrival, jobs in turn, and no more than asked for.
func TestOrderOfGrants(t *testing.T) {
	s := newScene(t, nil)
	second := *s.jobs[s.id].spec
	second.ID = job.NewID()
	s.jobs[second.ID] = &jobEntry{&second, job.StateRunning}
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

// TestRetries: again after 5 s, a minute, ten minutes, then that is the outcome.
func TestRetries(t *testing.T) {
	s := newScene(t, nil)
	const url = "http://a.example/slow"
	s.post(0, url, "http://a.example/other")
	busy := func(after uint32) *wire.Fetched {
		f := s.got(url, link.OutcomeHTTPError)
		f.Status, f.RetryAfterMs = 503, after
		return f
	}
	waits := []time.Duration{5 * time.Second, 2 * time.Minute, 10 * time.Minute}
	for i, wait := range waits {
		g := s.lease("w", "a.example", 9)
		if !slices.Contains(granted(g), url) {
			t.Fatalf("try %d is not granted: %v", i+1, granted(g))
		}
		s.tell("w", "a.example", g.GetEpoch(), busy(uint32(i)*120_000))
		if i == 2 {
			wait = 10 * time.Minute
		}
		got := s.fate(url)
		if got.State != "waiting" || got.Due.Sub(s.now) != wait || int(got.Final.Tries) != i+1 {
			t.Fatalf("after try %d: %+v, due in %v", i+1, got, got.Due.Sub(s.now))
		}
		if c := s.owner.Counts(s.id); c.Waiting != 1 || !c.NextDue.Equal(got.Due) {
			t.Errorf("counts %+v", c)
		}
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
		s.now = s.now.Add(wait)
	}
	g := s.lease("w", "a.example", 9)
	s.tell("w", "a.example", g.GetEpoch(), busy(0))
	if got := s.fate(url); got.State != "done" || got.Final.Outcome != link.OutcomeHTTPError || got.Final.Status != 503 || got.Final.Tries != 3 {
		t.Errorf("in the end: %+v", got)
	}
}

// TestHostDown: failures of a whole host burn no tries of its URLs; after too many in a row all share the outcome, also those found later.
func TestHostDown(t *testing.T) {
	tests := []struct {
		outcome link.Outcome
		fails   int
	}{
		{link.OutcomeConnect, 4}, {link.OutcomeDNS, 4}, {link.OutcomeRobotsUnreachable, 4}, {link.OutcomeTLS, 3}, {link.OutcomeBlockedAddress, 1},
	}
	for _, test := range tests {
		t.Run(test.outcome.String(), func(t *testing.T) {
			s := newScene(t, nil)
			urls := pages("a.example", 1500)
			s.post(0, urls...)
			for i := range test.fails {
				s.wait(11 * time.Minute)
				g := s.lease("w", "a.example", 3)
				var list []*wire.Fetched
				for _, url := range granted(g) {
					list = append(list, s.got(url, test.outcome))
				}
				list = list[:1+i%len(list)]
				if test.outcome == link.OutcomeTLS {
					list = list[:1]
				}
				reply := s.tell("w", "a.example", g.GetEpoch(), list...)
				if i+1 < test.fails && s.owner.Totals().URLsPending+s.owner.Totals().URLsLeased < 1490 {
					t.Fatalf("after %d failures: %+v", i+1, s.owner.Totals())
				}
				if test.outcome.Retryable(0) && !slices.Contains(reply.GetRevoked(), "a.example") {
					t.Errorf("the worker keeps a host that fails: %v", reply)
				}
				if !test.outcome.Retryable(0) {
					s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
				}
			}
			for range 10 {
				s.wait(time.Second)
			}
			if c := s.owner.Counts(s.id); c.Outcomes[test.outcome] != 1500 || c.Outstanding() != 0 {
				t.Errorf("in the end: %+v", c)
			}
			s.post(1, "http://a.example/later")
			s.wait(time.Second)
			if got := s.fate("http://a.example/later"); got.Final.Outcome != test.outcome {
				t.Errorf("a URL found later: %+v", got)
			}
			s.wait(2 * time.Hour)
			s.post(1, "http://a.example/much-later")
			if got := s.fate("http://a.example/much-later"); got.State != "pending" {
				t.Errorf("a URL found much later: %+v", got)
			}
		})
	}
}

func TestHostAnswersAgain(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 20)...)
	for range 3 {
		for range 3 {
			s.wait(11 * time.Minute)
			g := s.lease("w", "a.example", 2)
			s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeConnect))
		}
		s.wait(11 * time.Minute)
		g := s.lease("w", "a.example", 2)
		s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK), s.got(granted(g)[1], link.OutcomeOK))
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
	}
	if got := s.owner.Totals(); got.Pages != 6 || got.Errors != 0 || got.URLsPending != 14 {
		t.Errorf("%+v", got)
	}
	d, _ := s.owner.Host("a.example")
	if d.Fails != 0 || d.Backoff != "" {
		t.Errorf("%+v", d)
	}
}

// TestQuarantine: what is out when a lease lapses is out alone from the second time on, and after the third left alone. Handing a host back is no
// lapse.
func TestQuarantine(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, "http://a.example/bad", "http://a.example/good")
	for range 5 {
		g := s.lease("w", "a.example", 4)
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
	}
	for range 2 {
		if g := s.lease("w", "a.example", 4); len(g.GetUrl()) != 2 {
			t.Fatalf("granted %v", granted(g))
		}
		s.wait(8 * time.Second)
	}
	g := s.lease("w", "a.example", 4)
	if fmt.Sprint(granted(g)) != "[http://a.example/bad]" {
		t.Fatalf("after two lapses granted %v", granted(g))
	}
	if more := s.ask("w", "a.example", g.GetEpoch(), 4); len(more.GetUrl()) != 0 {
		t.Fatalf("beside it granted %v", granted(more))
	}
	s.wait(8 * time.Second)
	if got := s.fate("http://a.example/bad"); got.Final.Outcome != link.OutcomeQuarantined {
		t.Errorf("after three: %+v", got)
	}
	g = s.lease("w", "a.example", 4)
	s.tell("w", "a.example", g.GetEpoch(), s.got("http://a.example/good", link.OutcomeOK))
	if got := s.owner.Totals(); got.Pages != 1 || got.URLsPending != 0 {
		t.Errorf("%+v", got)
	}
}

func TestRedirects(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth = true, 0 })
	s.post(0, "http://a.example/r0")
	for i := range wire.MaxRedirects + 1 {
		g := s.lease("w", "a.example", 4)
		if len(g.GetUrl()) != 1 || int(g.GetHops()[0]) != i || g.GetDepth()[0] != 0 {
			t.Fatalf("hop %d: granted %v", i, g)
		}
		f := s.got(granted(g)[0], link.OutcomeRedirect, fmt.Sprintf("http://a.example/r%d", i+1))
		f.Hops = uint32(i)
		s.tell("w", "a.example", g.GetEpoch(), f)
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
	}
	if got := s.owner.Totals(); got.Redirects != wire.MaxRedirects+1 || got.URLsSeen != wire.MaxRedirects+1 {
		t.Errorf("%+v", got)
	}
}

// TestKindsOfLinks: requisites belong to their page's depth, a robots.txt's sitemaps have the depth it says.
func TestKindsOfLinks(t *testing.T) {
	s := newScene(t, func(m *wire.JobSpec, _ *owner.Config) { m.HasMaxDepth, m.MaxDepth, m.Requisites = true, 0, true })
	s.post(0, "http://a.example/")
	g := s.lease("w", "a.example", 4)
	page := s.got("http://a.example/", link.OutcomeOK, "http://a.example/x.png", "http://a.example/next")
	page.LinkKind = []byte{byte(link.KindRequisite), byte(link.KindPage)}
	robots := s.got("http://a.example/robots.txt", link.OutcomeNone, "http://a.example/sitemap.xml", "http://a.example/page")
	robots.LinkKind = []byte{byte(link.KindSitemap), byte(link.KindPage)}
	s.tell("w", "a.example", g.GetEpoch(), page, robots)
	for url, want := range map[string]string{
		"http://a.example/x.png": "pending", "http://a.example/next": "unknown", "http://a.example/sitemap.xml": "pending",
		"http://a.example/robots.txt": "unknown", "http://a.example/page": "unknown",
	} {
		if got := s.fate(url); got.State != want || got.Final.Depth != 0 {
			t.Errorf("%s: %+v, want %s", url, got, want)
		}
	}
}

func TestPauseAndCancel(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 1200)...)
	set := func(state job.State) {
		s.do(func(o *owner.Owner) {
			s.jobs[s.id].state = state
			o.JobChanged(s.id)
		})
	}
	g := s.lease("w", "a.example", 2)
	set(job.StatePaused)
	if more := s.ask("w", "a.example", g.GetEpoch(), 2); len(more.GetUrl()) != 0 || more.GetMore() {
		t.Errorf("granted while paused: %v", more)
	}
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[0], link.OutcomeOK, "http://a.example/found"))
	if got := s.owner.Totals(); got.Pages != 1 || got.URLsSeen != 1201 {
		t.Errorf("what was out while paused: %+v", got)
	}
	set(job.StateRunning)
	if more := s.ask("w", "a.example", g.GetEpoch(), 2); len(more.GetUrl()) != 2 {
		t.Errorf("granted after it: %v", more)
	}
	set(job.StateCanceled)
	for range 5 {
		s.wait(0)
	}
	if c := s.owner.Counts(s.id); c.Pending != 0 || c.Leased != 3 {
		t.Errorf("canceled: %+v", c)
	}
	s.tell("w", "a.example", g.GetEpoch(), s.got(granted(g)[1], link.OutcomeOK, "http://a.example/late"))
	if c := s.owner.Counts(s.id); c.Outcomes[link.OutcomeOK] != 2 || c.Accepted != 1201 {
		t.Errorf("a report after the cancel: %+v", c)
	}
}

// TestPlacement: a worker that says no is not asked again, a silent one after its time, in the end the owner takes the host itself.
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
		for _, offer := range s.do(func(o *owner.Owner) { o.Placed(place.Host, "w", nil, "") }).Offers {
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
	for i, ms := range []uint32{10, 15, 30, 12, 21, 50, 40} {
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

// TestWhatAWorkerLearnt reaches the next one.
func TestWhatAWorkerLearnt(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 10)...)
	g := s.lease("w1", "a.example", 1)
	s.say("w1", &wire.Session{Hosts: []*wire.HostWork{{
		Host: "a.example", Epoch: g.GetEpoch(), Release: true, OwedMs: 700, BackoffMs: 1500, BackoffReason: "429",
		Addrs: [][]byte{{192, 0, 2, 1}}, Returned: []*wire.Unfetched{{Job: s.id[:], Hash: link.Hash(s.id, granted(g)[0])}},
		Robots: []*wire.Robots{{Origin: "http://a.example", State: []byte("rules")}, {Origin: "http://b.example", State: []byte("not its own")}},
	}}})
	s.wait(600 * time.Millisecond)
	s.open(s.now)
	s.wait(0)
	next := s.lease("w2", "a.example", 1)
	if next.GetNotBeforeMs() != 900 || next.GetBackoffReason() != "429" || len(next.GetAddrs()) != 1 || len(next.GetRobots()) != 1 || string(next.GetRobots()[0].GetState()) != "rules" {
		t.Errorf("granted %v", next)
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
	if err := s.owner.Check(); err != nil {
		t.Error(err)
	}
	if got := s.owner.Totals(); got.Pages != hosts || got.HostsOwned != hosts {
		t.Errorf("%+v", got)
	}
	var after owner.Pos
	n := 0
	for list := s.owner.HostsAfter(after, 7); len(list) > 0; list = s.owner.HostsAfter(after, 7) {
		for _, h := range list {
			if h.OK != 1 || h.Pending != 0 || h.Accepted != 1 {
				t.Errorf("%+v", h)
			}
		}
		n += len(list)
		after = owner.PosOf(list[len(list)-1].Key)
	}
	if n != hosts {
		t.Errorf("%d hosts listed, want %d", n, hosts)
	}
}

// TestOutboxSpills: links beyond the memory's bound wait on disk, and those not acknowledged are sent again after a start.
func TestOutboxSpills(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.MaxOutbox = 20 })
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	s.post(0, pages("a.example", 30)...)
	g := s.lease("w", "a.example", 30)
	for i, url := range granted(g) {
		var to []string
		for k := range 5 {
			to = append(to, fmt.Sprintf("http://b.example/%d-%d", i, k))
		}
		s.tell("w", "a.example", g.GetEpoch(), s.got(url, link.OutcomeOK, to...))
	}
	if n := s.owner.Counts(s.id).Outbox; n != 150 {
		t.Errorf("%d links in the outbox, want 150", n)
	}
	sent := make(map[string]int)
	send := func(most int) {
		for range 100 {
			var ids []uint64
			for _, k := range s.owner.Outbox(7) {
				if len(sent) < most {
					sent[k.URL]++
					ids = append(ids, k.ID)
				}
			}
			s.do(func(o *owner.Owner) { o.Sent(ids) })
		}
	}
	send(33)
	s.open(s.now)
	send(1000)
	if n := s.owner.Counts(s.id).Outbox; len(sent) != 150 || n != 0 {
		t.Errorf("%d links were sent, %d are left", len(sent), n)
	}
	again := 0
	for _, n := range sent {
		if n > 1 {
			again++
		}
	}
	if again > 5 {
		t.Errorf("%d links were sent twice, want those of one page at most", again)
	}
}

// TestKnownLinksAreNotSentTwice unless at a smaller depth.
func TestKnownLinksAreNotSentTwice(t *testing.T) {
	s := newScene(t, nil)
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	s.post(2, "http://a.example/1", "http://a.example/2")
	s.post(1, "http://a.example/3")
	g := s.lease("w", "a.example", 3)
	for _, step := range []struct {
		url  string
		want int
	}{{"http://a.example/1", 1}, {"http://a.example/2", 0}, {"http://a.example/3", 1}} {
		s.tell("w", "a.example", g.GetEpoch(), s.got(step.url, link.OutcomeOK, "http://b.example/", "http://out.test/"))
		if list := s.owner.Outbox(10); len(list) != step.want {
			t.Errorf("%s: sends %+v", step.url, list)
		}
	}
}

// TestSeenBloom: with the paper's filter alone a positive is believed.
func TestSeenBloom(t *testing.T) {
	for _, bloom := range []bool{false, true} {
		s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.SeenBloom, cfg.MaxKnown = bloom, 2 })
		seen := alwaysYes{}
		o, err := owner.New(s.cfg, s.store, seen, s.jobs, s.ring, s.now)
		if err != nil {
			t.Fatal(err)
		}
		s.owner = o
		s.post(0, "http://a.example/1")
		s.post(0, "http://a.example/2")
		if got, want := s.owner.Totals().URLsSeen, map[bool]int64{false: 2, true: 1}[bloom]; got != want {
			t.Errorf("bloom %v: %d URLs, want %d", bloom, got, want)
		}
	}
}

type alwaysYes struct{}

func (alwaysYes) Test(owner.SetID, uint64) (owner.Verdict, error) { return owner.Yes, nil }
func (alwaysYes) Add(owner.SetID, uint64) error                   { return nil }
func (alwaysYes) Drop(owner.SetID)                                {}

func TestStoreFailure(t *testing.T) {
	s := newScene(t, nil)
	s.store.Fail = func() error { return fmt.Errorf("disk full") }
	s.owner.Begin(s.now)
	s.owner.Links(links(s.id, 0, "http://a.example/"))
	if _, err := s.owner.Commit(); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Commit: %v", err)
	}
	s.store.Fail = nil
	s.owner.Begin(s.now)
	if _, err := s.owner.Commit(); err == nil {
		t.Error("the owner goes on after a failure of its store")
	}
}
