package owner_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// failing is an outcome that ends every try.
type failing struct {
	outcome link.Outcome
	status  uint32
	after   time.Duration // asked for with each
}

// crawlFailing tries a host that only fails until nothing is pending, and returns how many leases
// it took and the time.
func crawlFailing(t *testing.T, s *scene, f failing, most int) (leases int, took time.Duration) {
	t.Helper()
	begin := s.now
	for {
		if c := s.owner.Counts(s.id); c.Outstanding() == 0 {
			return leases, s.now.Sub(begin)
		}
		if leases++; leases > most {
			t.Fatalf("still at it after %d leases and %v: %+v", most, s.now.Sub(begin), s.owner.Counts(s.id))
		}
		g := s.lease("w", "a.example", 8)
		got := s.got(granted(g)[0], f.outcome)
		got.Status, got.RetryAfterMs = f.status, uint32(f.after.Milliseconds())
		s.tell("w", "a.example", g.GetEpoch(), got)
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true, BackoffMs: got.RetryAfterMs, BackoffReason: "asked"}}})
		for range 90 {
			s.wait(time.Second / 10)
		}
		next, _ := s.owner.Waits(s.now)
		if len(next) > 0 {
			s.wait(time.Duration(next[0].NextS * float64(time.Second)))
		}
	}
}

// TestWaitsEnd: each host that waits is counted once, with four examples, and none after the wait.
func TestWaitsEnd(t *testing.T) {
	const hosts = 300
	s := newScene(t, nil)
	s.post(0, wide(0, hosts)...)
	if waits, _ := s.owner.Waits(s.now); len(waits) > 0 {
		t.Errorf("hosts that were just met wait: %+v", waits)
	}
	m := &wire.Session{}
	for _, url := range wide(0, hosts) {
		m.Hosts = append(m.Hosts, &wire.HostWork{Host: link.Host(url), Fetched: []*wire.Fetched{s.got(url, link.OutcomeConnect)}})
	}
	s.say("w", m)
	if waits, jobs := s.owner.Waits(s.now); len(waits) != 1 || waits[0].Hosts != hosts || waits[0].URLs != hosts || len(waits[0].Examples) != 4 || jobs[s.id].URLs != hosts {
		t.Errorf("%+v", waits)
	}
	s.wait(time.Minute)
	if waits, _ := s.owner.Waits(s.now); len(waits) > 0 {
		t.Errorf("after the wait: %+v", waits)
	}
}

// TestFailingHostEnds: a host that never does otherwise is left alone after a bounded number of
// tries, whatever it says each time and however many URLs it has.
func TestFailingHostEnds(t *testing.T) {
	for name, test := range map[string]struct {
		failing
		leases int
	}{
		"no such name":               {failing{outcome: link.OutcomeDNS, status: link.NameAbsent}, 2},
		"no name at all":             {failing{outcome: link.OutcomeDNS, status: link.NameMalformed}, 1},
		"servers of names that fail": {failing{outcome: link.OutcomeDNS}, 4},
		"refused connections":        {failing{outcome: link.OutcomeConnect}, 4},
		"silence":                    {failing{outcome: link.OutcomeTimeout}, 4},
		"429 for ever":               {failing{outcome: link.OutcomeHTTPError, status: 429}, 4},
		"a wish renewed each time":   {failing{outcome: link.OutcomeHTTPError, status: 503, after: 599 * time.Second}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil)
			s.post(0, pages("a.example", 1000)...)
			leases, took := crawlFailing(t, s, test.failing, test.leases)
			if leases != test.leases || took > time.Hour {
				t.Errorf("%d leases in %v, want %d", leases, took, test.leases)
			}
			if c := s.owner.Counts(s.id); c.Outcomes[test.outcome.String()] != 1000 {
				t.Errorf("in the end %+v", c)
			}
		})
	}
	t.Run("one answer in between", func(t *testing.T) {
		s := newScene(t, nil)
		s.post(0, pages("a.example", 100)...)
		for i := range 12 {
			s.wait(11 * time.Minute)
			g := s.lease("w", "a.example", 1)
			got := s.got(granted(g)[0], link.OutcomeHTTPError)
			if got.Status = 429; i%3 == 2 {
				got.Status = 404
			}
			s.tell("w", "a.example", g.GetEpoch(), got)
			s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
		}
		if c := s.owner.Counts(s.id); c.Done > 12 {
			t.Errorf("a host that answers now and then was given up: %+v", c)
		}
	})
}

// TestPutOff: what waits behind the horizon is counted as put off, all of it and nothing else, with
// the host and the reason.
func TestPutOff(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("a.example", 5)...)
	s.post(0, "http://b.example/")
	if list, jobs := s.owner.Waits(s.now); len(list) != 0 || len(jobs) != 0 {
		t.Fatalf("nothing waits, but %+v, %+v", list, jobs)
	}
	g := s.lease("w", "a.example", 2)
	busy := s.got(granted(g)[0], link.OutcomeHTTPError)
	const day = 24 * time.Hour
	busy.Status, busy.RetryAfterMs = 429, uint32((30 * day).Milliseconds())
	s.say("w", &wire.Session{
		Held: []*wire.HostLease{{Host: "a.example", Epoch: g.GetEpoch()}},
		Hosts: []*wire.HostWork{{
			Host: "a.example", Epoch: g.GetEpoch(), Fetched: []*wire.Fetched{busy}, Release: true,
			BackoffMs: busy.RetryAfterMs, BackoffReason: "Too Many Requests",
		}},
	})
	list, jobs := s.owner.Waits(s.now.Add(10 * time.Minute))
	if len(list) != 1 || list[0].URLs != 5 || list[0].PutOff != 5 || list[0].HostsPutOff != 1 || list[0].NextS != day.Seconds() {
		t.Fatalf("waits %+v", list)
	}
	if e := list[0].Examples; len(e) != 1 || e[0].Host != "a.example" || !strings.Contains(e[0].Why, "Too Many Requests") {
		t.Errorf("examples %+v", list[0].Examples)
	}
	if p := jobs[s.id]; p.URLs != 5 || p.Hosts != 1 || p.NextS != day.Seconds() {
		t.Errorf("of the job: %+v", p)
	}
	if list, jobs := s.owner.Waits(s.now.Add(2 * day)); len(list) != 1 || list[0].PutOff != 0 || jobs[s.id].URLs != 0 {
		t.Errorf("with patience: %+v, %+v", list, jobs)
	}
	// The peer starts again, knows as much, and goes on when the time has come.
	s.crash(s.now, rand.New(rand.NewPCG(1, 1)))
	s.wait(time.Second)
	if _, jobs := s.owner.Waits(s.now.Add(10 * time.Minute)); jobs[s.id].URLs != 5 {
		t.Errorf("after a start: %+v", jobs)
	}
	s.wait(day)
	if g := s.lease("w", "a.example", 9); len(granted(g)) != 5 {
		t.Errorf("a day later: %v", granted(g))
	}
}

// TestPutOffBeyondMemory: hosts that memory has no room for are put off as well as those in it.
func TestPutOffBeyondMemory(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, c *owner.Config) { c.MaxHosts = 8 })
	const hosts = 50
	for i := range hosts {
		host := "h" + string(rune('a'+i/26)) + string(rune('a'+i%26)) + ".example"
		s.post(0, "http://"+host+"/", "http://"+host+"/1")
		g := s.lease("w", host, 1)
		s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Epoch: g.GetEpoch(), Release: true, BackoffMs: 86_400_000, BackoffReason: "asked"}}})
	}
	count := func() (n int64) {
		_, jobs := s.owner.Waits(s.now.Add(10 * time.Minute))
		return jobs[s.id].URLs
	}
	if c := s.owner.Counts(s.id); c.Pending != 2*hosts || count() != 2*hosts {
		t.Fatalf("%d of %d are put off", count(), c.Pending)
	}
	for range 20 { // those that were dropped are looked at in turn
		s.wait(2 * time.Second)
	}
	if count() != 2*hosts {
		t.Errorf("%d are put off after some turns", count())
	}
	s.crash(s.now, rand.New(rand.NewPCG(1, 1)))
	for range 20 {
		s.wait(2 * time.Second)
	}
	if count() != 2*hosts {
		t.Errorf("%d are put off after a start", count())
	}
	s.wait(25 * time.Hour)
	for range 20 {
		s.wait(2 * time.Second)
	}
	if count() != 0 {
		t.Errorf("%d are put off though their time has come", count())
	}
}

// TestMuteHost: a host that refused twice, and of which nothing was ever heard, is put off; one
// that refused once, that answered before, or that a great patience waits for, is not. A day later
// it is tried again.
func TestMuteHost(t *testing.T) {
	for name, row := range map[string]struct {
		before  link.Outcome
		fails   int
		horizon time.Duration
		off     bool
	}{
		"refused once":            {link.OutcomeNone, 1, 10 * time.Minute, false},
		"refused twice":           {link.OutcomeNone, 2, 10 * time.Minute, true},
		"with a great patience":   {link.OutcomeNone, 2, 30 * 24 * time.Hour, false},
		"answered before":         {link.OutcomeOK, 2, 10 * time.Minute, false},
		"answered with an error":  {link.OutcomeHTTPError, 2, 10 * time.Minute, false},
		"with none but the least": {link.OutcomeNone, 2, time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, nil)
			s.post(0, pages("a.example", 9)...)
			tell := func(outcome link.Outcome) {
				g := s.lease("w", "a.example", 1)
				got := s.got(granted(g)[0], outcome)
				if outcome == link.OutcomeHTTPError {
					got.Status = 404
				}
				s.tell("w", "a.example", g.GetEpoch(), got)
				s.say("w", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Epoch: g.GetEpoch(), Release: true}}})
				s.wait(2 * time.Second)
			}
			if row.before != link.OutcomeNone {
				tell(row.before)
			}
			for i := range row.fails {
				if tell(link.OutcomeConnect); i+1 < row.fails {
					s.wait(6 * time.Second)
				}
			}
			list, jobs := s.owner.Waits(s.now.Add(row.horizon))
			if len(list) != 1 || (list[0].PutOff > 0) != row.off || (jobs[s.id].URLs > 0) != row.off {
				t.Fatalf("waits %+v, %+v", list, jobs)
			}
			s.wait(24 * time.Hour)
			tell(link.OutcomeOK)
			if list, jobs := s.owner.Waits(s.now.Add(row.horizon)); len(jobs) > 0 {
				t.Errorf("after an answer: %+v, %+v", list, jobs)
			}
		})
	}
}
