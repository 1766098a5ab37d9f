package owner_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestRetries: again after 5 s, a minute, ten minutes, then that is the outcome. What is told twice
// is one try.
func TestRetries(t *testing.T) {
	s := newScene(t, nil)
	const url = "http://a.example/slow"
	s.post(0, url, "http://a.example/other")
	busy := func(after uint32) *wire.Fetched {
		f := s.got(url, link.OutcomeHTTPError)
		f.Status, f.RetryAfterMs = 503, after
		return f
	}
	waits := []time.Duration{5 * time.Second, 2 * time.Minute, 5 * time.Minute}
	for i, wait := range waits {
		g := s.lease("w", "a.example", 9)
		if !slices.Contains(granted(g), url) {
			t.Fatalf("try %d is not granted: %v", i+1, granted(g))
		}
		for range 2 {
			s.tell("w", "a.example", g.GetEpoch(), busy(uint32(i)*120_000))
		}
		if i == 2 {
			wait = 5 * time.Minute
		}
		got := s.fate(url)
		if got.State != "waiting" || got.Due.Sub(s.now) != wait || int(got.Final.Tries) != i+1 {
			t.Fatalf("after try %d: %+v, due in %v", i+1, got, got.Due.Sub(s.now))
		}
		if c := s.owner.Counts(s.id); c.Waiting != 1 || c.NextRetryS != got.Due.Sub(s.now).Seconds() {
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

// TestHostDown: failures of a whole host burn no tries of its URLs; after too many in a row all
// share the outcome, also those found later.
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
			if c := s.owner.Counts(s.id); c.Outcomes[test.outcome.String()] != 1500 || c.Outstanding() != 0 {
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

// TestLetGoIsNoLapse: a worker that speaks and does not name a lease any more has let it go, as
// answers came late or went lost. Nothing is said of what was out.
func TestLetGoIsNoLapse(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, "http://a.example/1", "http://a.example/2")
	for i := range 6 {
		if g := s.lease("w", "a.example", 4); len(g.GetUrl()) != 2 {
			t.Fatalf("after %d times granted %v", i, granted(g))
		}
		s.wait(3 * time.Second)
		s.say("w", &wire.Session{})
		s.wait(8 * time.Second)
		if d, _ := s.owner.Host("a.example"); d.Worker != "" {
			t.Fatalf("after the lease's time: still leased to %s", d.Worker)
		}
	}
}

// TestRenewalThatWaits: a lease goes on while inputs wait that came before its end, since one of
// them may renew it.
func TestRenewalThatWaits(t *testing.T) {
	for _, row := range []struct {
		name    string
		renewed bool
	}{{"it renews", true}, {"it does not", false}} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t, nil)
			s.post(0, "http://a.example/1")
			g := s.lease("w", "a.example", 4)
			came := s.now.Add(6 * time.Second)
			s.now = s.now.Add(10 * time.Second)
			for range 3 {
				s.now = s.now.Add(time.Second)
				s.behind(came, nil)
				if d, _ := s.owner.Host("a.example"); d.Worker != "w" {
					t.Fatal("the lease ended while a message waited that came before")
				}
			}
			s.behind(came, func(o *owner.Owner) {
				if row.renewed {
					o.Session("w", &wire.Session{Incarnation: 1, Held: []*wire.HostLease{{Host: "a.example", Epoch: g.GetEpoch()}}})
				}
			})
			s.wait(time.Second)
			if d, _ := s.owner.Host("a.example"); (d.Worker == "w") != row.renewed {
				t.Errorf("with that message taken in: leased to %q", d.Worker)
			}
		})
	}
}

// TestQuarantine: what is out when a lease lapses is out alone from the second time on, and left
// alone when that has ended twice as well. Handing a host back is no lapse.
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
	for i := range 2 {
		g := s.lease("w", "a.example", 4)
		if fmt.Sprint(granted(g)) != "[http://a.example/bad]" {
			t.Fatalf("after %d lapses granted %v", 2+i, granted(g))
		}
		if more := s.ask("w", "a.example", g.GetEpoch(), 4); len(more.GetUrl()) != 0 {
			t.Fatalf("beside it granted %v", granted(more))
		}
		s.wait(8 * time.Second)
	}
	if got := s.fate("http://a.example/bad"); got.Final.Outcome != link.OutcomeQuarantined {
		t.Errorf("after four: %+v", got)
	}
	g := s.lease("w", "a.example", 4)
	s.tell("w", "a.example", g.GetEpoch(), s.got("http://a.example/good", link.OutcomeOK))
	if got := s.owner.Totals(); got.Pages != 1 || got.URLsPending != 0 {
		t.Errorf("%+v", got)
	}
}

// TestDeadPeerIsNotWaitedFor: a host that is on offer to a peer that dies is for somebody else at
// once, not when the offer's time is over.
func TestDeadPeerIsNotWaitedFor(t *testing.T) {
	s := newScene(t, nil)
	ready := s.post(0, "http://a.example/", "http://b.example/")
	if offers := s.placed(ready, "w1"); len(offers) != 2 {
		t.Fatalf("offers %v", offers)
	}
	ready = s.do(func(o *owner.Owner) { o.PeerDead("w1") })
	var again []string
	for _, place := range ready.Places {
		if again = append(again, place.Host); !slices.Contains(place.Exclude, "w1") {
			t.Errorf("%s may be placed on the dead peer again", place.Host)
		}
	}
	if !slices.Equal(again, []string{"a.example", "b.example"}) {
		t.Errorf("placed anew are %v, want both hosts in the order of their offers", again)
	}
}

// TestLeasesEndInOneOrder: what comes of a worker's new process is the same each time, so that a
// simulation can be played again.
func TestLeasesEndInOneOrder(t *testing.T) {
	hosts := []string{"a.example", "b.example", "c.example", "d.example", "e.example", "f.example"}
	again := func() (order []string) {
		s := newScene(t, nil)
		for _, host := range hosts {
			s.placed(s.post(0, "http://"+host+"/"), "w")
			s.ask("w", host, nil, 1)
		}
		_, ready := s.say("w", &wire.Session{Incarnation: 2})
		for _, place := range append(ready.Places, s.wait(time.Second).Places...) {
			order = append(order, place.Host)
		}
		return order
	}
	first := again()
	if len(first) != len(hosts) {
		t.Fatalf("placed anew are %v, want %d", first, len(hosts))
	}
	for range 10 {
		if order := again(); !slices.Equal(order, first) {
			t.Fatalf("placed anew are %v, and another time %v", first, order)
		}
	}
}

func TestStoreFailure(t *testing.T) {
	s := newScene(t, nil)
	s.check = false // the failed step stays open
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
