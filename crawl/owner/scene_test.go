package owner_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
)

// scene is one owner with one job over *.example, and a time that the test moves.
type scene struct {
	*peer
	id  job.ID
	now time.Time
}

func newScene(t testing.TB, change func(*wire.JobSpec, *owner.Config)) *scene {
	t.Helper()
	jobs := jobTable{}
	m := &wire.JobSpec{Seeds: [][]byte{[]byte("http://a.example/")}, Scope: []string{"*.example"}}
	cfg := owner.Config{Self: "self"}
	if change != nil {
		change(m, &cfg)
	}
	s := &scene{id: jobs.add(t, m), now: epochStart}
	s.peer = newPeer(t, cfg, everything(), jobs, s.now)
	return s
}

func (s *scene) do(fn func(o *owner.Owner)) owner.Ready { return s.step(s.now, fn) }

// behind is a step while inputs wait that came at a time.
func (s *scene) behind(came time.Time, fn func(o *owner.Owner)) {
	s.t.Helper()
	s.owner.BeginBehind(s.now, came)
	if fn != nil {
		fn(s.owner)
	}
	if _, err := s.owner.Commit(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) wait(d time.Duration) owner.Ready {
	s.now = s.now.Add(d)
	return s.do(nil)
}

// post takes links at a depth.
func (s *scene) post(depth uint32, urls ...string) owner.Ready {
	return s.do(func(o *owner.Owner) { o.Links(links(s.id, depth, urls...)) })
}

// placed answers every Place of a step with a worker and returns the offers.
func (s *scene) placed(ready owner.Ready, worker string) (offers []owner.Offer) {
	offers = ready.Offers
	for _, place := range ready.Places {
		offers = append(offers, s.do(func(o *owner.Owner) { o.Placed(place.Host, owner.Placement{Worker: worker, Why: "test"}) }).Offers...)
	}
	return offers
}

// say is one session.
func (s *scene) say(from string, m *wire.Session) (*wire.SessionReply, owner.Ready) {
	s.t.Helper()
	if m.Incarnation == 0 {
		m.Incarnation = 1
	}
	if err := m.Validate(); err != nil {
		s.t.Fatal(err)
	}
	var reply *wire.SessionReply
	ready := s.do(func(o *owner.Owner) { reply = o.Session(from, m) })
	if err := reply.Validate(); err != nil {
		s.t.Fatal(err)
	}
	return reply, ready
}

// lease gets a worker a lease on a host that waits for placement, with up to want URLs.
func (s *scene) lease(from, host string, want uint32) *wire.Grant {
	s.t.Helper()
	s.placed(s.do(nil), from)
	return s.ask(from, host, nil, want)
}

// ask asks for URLs, and fails the test if no grant comes.
func (s *scene) ask(from, host string, epoch *wire.Epoch, want uint32) *wire.Grant {
	s.t.Helper()
	m := &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: epoch, Want: want}}}
	if epoch != nil {
		m.Held = []*wire.HostLease{{Host: host, Epoch: epoch}}
	}
	reply, _ := s.say(from, m)
	if len(reply.GetGrants()) != 1 {
		s.t.Fatalf("%s asks for %s and hears %v", from, host, reply)
	}
	return reply.GetGrants()[0]
}

// tell reports outcomes.
func (s *scene) tell(from, host string, epoch *wire.Epoch, list ...*wire.Fetched) *wire.SessionReply {
	s.t.Helper()
	reply, _ := s.say(from, &wire.Session{
		Held:  []*wire.HostLease{{Host: host, Epoch: epoch}},
		Hosts: []*wire.HostWork{{Host: host, Epoch: epoch, Fetched: list}},
	})
	return reply
}

func (s *scene) got(url string, outcome link.Outcome, links ...string) *wire.Fetched {
	f := &wire.Fetched{Job: s.id[:], Url: []byte(url), Outcome: uint32(outcome), FetchedMs: s.now.UnixMilli(), Size: 10}
	switch outcome {
	case link.OutcomeOK, link.OutcomeDuplicate:
		f.Status, f.RecordId = 200, fmt.Appendf(nil, "%016x", pick(url+s.now.String(), 1<<31-1))
	case link.OutcomeHTTPError:
		f.Status = 404
	}
	for _, l := range links {
		f.Links = append(f.Links, []byte(l))
	}
	return f
}

func (s *scene) fate(url string) owner.Fate {
	s.t.Helper()
	list := s.owner.Why(url)
	if len(list) == 0 {
		s.t.Fatalf("no job knows of %s", url)
	}
	return list[0]
}

func granted(g *wire.Grant) (urls []string) {
	for _, url := range g.GetUrl() {
		urls = append(urls, string(url))
	}
	return urls
}

func pages(host string, n int) (urls []string) {
	for i := range n {
		urls = append(urls, fmt.Sprintf("http://%s/%02d", host, i))
	}
	return urls
}

// TestOneWorkerAHost: a second worker gets a host only when the first cannot use it any more.
func TestOneWorkerAHost(t *testing.T) {
	const host = "a.example"
	start := func(t *testing.T) (*scene, *wire.Grant) {
		s := newScene(t, nil)
		s.post(0, pages(host, 20)...)
		return s, s.lease("w1", host, 4)
	}
	// second says whether w2 gets the host if it is offered to it and asks.
	second := func(s *scene) bool {
		s.placed(s.do(nil), "w2")
		reply, _ := s.say("w2", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 4}}})
		return len(reply.GetGrants()) == 1
	}
	hold := func(g *wire.Grant) *wire.Session {
		return &wire.Session{Held: []*wire.HostLease{{Host: host, Epoch: g.GetEpoch()}}}
	}
	tests := []struct {
		name string
		run  func(s *scene, g *wire.Grant)
		want bool
	}{
		{"at once", func(*scene, *wire.Grant) {}, false},
		{"just before the lease runs out", func(s *scene, _ *wire.Grant) { s.wait(7999 * time.Millisecond) }, false},
		{"when the lease has run out", func(s *scene, _ *wire.Grant) { s.wait(8 * time.Second) }, true},
		{"after a heartbeat", func(s *scene, g *wire.Grant) {
			s.wait(6 * time.Second)
			s.say("w1", hold(g))
			s.wait(7 * time.Second)
		}, false},
		{"after a heartbeat that does not name the host", func(s *scene, g *wire.Grant) {
			s.wait(6 * time.Second)
			s.say("w1", &wire.Session{})
			s.wait(2 * time.Second)
		}, true},
		{"after a heartbeat of another epoch", func(s *scene, g *wire.Grant) {
			s.wait(6 * time.Second)
			g.Epoch.Counter++
			if reply, _ := s.say("w1", hold(g)); !slices.Contains(reply.GetRevoked(), host) {
				s.t.Error("a lease that is none is not revoked")
			}
			s.wait(2 * time.Second)
		}, true},
		{"when it was given back", func(s *scene, g *wire.Grant) {
			s.say("w1", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Release: true}}})
		}, true},
		{"when the worker is said to be dead", func(s *scene, _ *wire.Grant) {
			s.do(func(o *owner.Owner) { o.PeerDead("w1") })
			s.wait(7 * time.Second)
		}, false},
		{"when the worker's process is another", func(s *scene, _ *wire.Grant) {
			s.say("w1", &wire.Session{Incarnation: 2})
			s.wait(time.Second)
		}, true},
		{"when an earlier process speaks late", func(s *scene, g *wire.Grant) {
			m := hold(g)
			m.Incarnation = 2
			s.say("w1", &wire.Session{Incarnation: 2})
			s.wait(time.Second)
			if !second(s) {
				s.t.Error("the host is not granted again")
			}
			if reply, _ := s.say("w1", hold(g)); !slices.Contains(reply.GetRevoked(), host) {
				s.t.Error("an earlier process is let hold its lease")
			}
		}, true},
		{"after a failure of the host", func(s *scene, g *wire.Grant) {
			s.tell("w1", host, g.GetEpoch(), s.got("http://a.example/00", link.OutcomeConnect))
			s.wait(7 * time.Second) // beyond the back-off, within the lease
		}, false},
		{"after the owner started again", func(s *scene, _ *wire.Grant) {
			s.open(s.now)
			s.wait(7 * time.Second)
		}, false},
		{"after the owner started again, and once more", func(s *scene, _ *wire.Grant) {
			s.open(s.now)
			s.wait(4 * time.Second)
			s.open(s.now)
			s.wait(7 * time.Second)
		}, false},
		{"after the owner started again and waited", func(s *scene, _ *wire.Grant) {
			s.open(s.now)
			s.wait(8 * time.Second)
		}, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, g := start(t)
			test.run(s, g)
			if got := second(s); got != test.want {
				t.Errorf("granted to another: %v, want %v", got, test.want)
			}
		})
	}
}

// TestOwnWorkerEndsWithProcess: nobody waits for a worker of the process that crashed, but for its
// politeness.
func TestOwnWorkerEndsWithProcess(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 20)...)
	s.lease("self", "a.example", 4)
	s.open(s.now)
	s.wait(time.Millisecond)
	if g := s.lease("self", "a.example", 4); g.GetNotBeforeMs() < 900 || g.GetNotBeforeMs() > 1000 {
		t.Errorf("politeness owed after a crash: %d ms", g.GetNotBeforeMs())
	}
}

// TestOutcomesOfALapsedLease are taken, once.
func TestOutcomesOfALapsedLease(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 20)...)
	g := s.lease("w1", "a.example", 4)
	s.wait(9 * time.Second)
	late := s.got("http://a.example/00", link.OutcomeOK, "http://a.example/new")
	s.tell("w1", "a.example", g.GetEpoch(), late)
	s.tell("w1", "a.example", g.GetEpoch(), late)
	if got := s.fate("http://a.example/00"); got.Final.Outcome != link.OutcomeOK || got.Final.Holder != "w1" {
		t.Errorf("the late outcome: %+v", got)
	}
	if s.fate("http://a.example/new").State != "pending" {
		t.Error("its links are lost")
	}
	if n := s.owner.Totals().Refetched; n != 0 {
		t.Errorf("the same report twice counts as %d fetches", n)
	}
	s.wait(time.Second)
	s.tell("w1", "a.example", &wire.Epoch{}, s.got("http://a.example/00", link.OutcomeHTTPError))
	if got := s.fate("http://a.example/00"); got.Final.Outcome != link.OutcomeOK || s.owner.Totals().Refetched != 1 {
		t.Errorf("after an error in place of the page: %+v, %d refetched", got.Final, s.owner.Totals().Refetched)
	}
}

// TestLostAnswer: what was granted in an answer that never came is granted again, while the lease
// goes on.
func TestLostAnswer(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 20)...)
	s.placed(s.do(nil), "w1")
	held := func(g *wire.Grant) []*wire.HostLease {
		return []*wire.HostLease{{Host: "a.example", Epoch: g.GetEpoch()}}
	}
	work := func(g *wire.Grant) []*wire.HostWork {
		return []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Want: 3}}
	}
	first, _ := s.say("w1", &wire.Session{Seq: 1, Hosts: []*wire.HostWork{{Host: "a.example", Want: 3}}})
	g := first.GetGrants()[0]
	lost, _ := s.say("w1", &wire.Session{Seq: 2, Ack: 1, Held: held(g), Hosts: work(g)})
	again, _ := s.say("w1", &wire.Session{Seq: 3, Ack: 1, Held: held(g), Hosts: work(g)})
	if !slices.Equal(granted(lost.GetGrants()[0]), granted(again.GetGrants()[0])) || slices.Equal(granted(g), granted(lost.GetGrants()[0])) {
		t.Errorf("granted %v, then (lost) %v, then %v", granted(g), granted(lost.GetGrants()[0]), granted(again.GetGrants()[0]))
	}
	if s.owner.Totals().URLsLeased != 6 {
		t.Errorf("%d URLs are out, want 6", s.owner.Totals().URLsLeased)
	}
}

// TestSmallestDepthWins fetches pages in random order: each has the smallest depth of the links
// found before its fetch.
func TestSmallestDepthWins(t *testing.T) {
	web := site{hosts: 3, pages: 12, links: 3}
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 3))
		s := newScene(t, func(m *wire.JobSpec, cfg *owner.Config) {
			m.HasMaxDepth, m.MaxDepth = true, 3
			cfg.MaxKnown = 8
		})
		s.check = false
		root := web.url(0, 0)
		s.post(0, root)
		smallest := map[string]uint32{root: 0}
		for {
			var open []string
			for h := range web.hosts {
				for p := range web.pages {
					if s.fate(web.url(h, p)).State == "pending" {
						open = append(open, web.url(h, p))
					}
				}
			}
			if len(open) == 0 {
				break
			}
			url := open[rng.IntN(len(open))] // workers are as fast or slow as they like
			f := web.answer(s.id, url, 1)
			f.FetchedMs = s.now.UnixMilli()
			if f.Depth = s.fate(url).Final.Depth; f.Depth != smallest[url] {
				t.Errorf("%s waits at depth %d, want %d", url, f.Depth, smallest[url])
			}
			s.tell("w", link.Host(url), &wire.Epoch{}, f)
			next := f.Depth + 1
			if link.Outcome(f.GetOutcome()) == link.OutcomeRedirect {
				next--
			}
			for _, to := range f.GetLinks() {
				if at, ok := smallest[string(to)]; !ok || next < at {
					smallest[string(to)] = next
				}
			}
		}
		if err := ownertest.Check(s.owner); err != nil {
			t.Fatal(err)
		}
		web.compare(t, s.id, found(t, s.id, s.peer), []string{root}, 3)
	}
}

// TestURLsSeenAddsUp follows the sums through the life of some URLs.
func TestURLsSeenAddsUp(t *testing.T) {
	s := newScene(t, nil)
	sums := func(when string, seen, pending, leased, waiting, pages, errors int64) {
		t.Helper()
		got := s.owner.Totals()
		if got.URLsSeen != seen || got.URLsPending != pending || got.URLsLeased != leased || got.URLsWaiting != waiting || got.Pages != pages || got.Errors != errors {
			t.Errorf("%s: %+v", when, got)
		}
	}
	urls := pages("a.example", 10)
	s.post(0, urls...)
	s.post(1, urls...)
	sums("posted twice", 10, 10, 0, 0, 0, 0)
	g := s.lease("w", "a.example", 4)
	sums("leased", 10, 6, 4, 0, 0, 0)
	busy := s.got(urls[1], link.OutcomeHTTPError)
	busy.Status = 503
	s.tell("w", "a.example", g.GetEpoch(), s.got(urls[0], link.OutcomeOK, "http://a.example/more"), busy, s.got(urls[2], link.OutcomeHTTPError))
	sums("reported", 11, 8, 1, 1, 1, 1)
	s.open(s.now)
	s.wait(0)
	sums("started again", 11, 9, 0, 1, 1, 1)
	s.do(func(o *owner.Owner) {
		s.jobs[s.id].state = job.StateCanceled
		o.JobChanged(s.id)
	})
	s.wait(0)
	sums("canceled", 11, 0, 0, 0, 1, 1)
	if c := s.owner.Counts(s.id); c.Done != 11 || c.Outcomes[link.OutcomeNone.String()] != 9 {
		t.Errorf("counts after cancel: %+v", c)
	}
}
