package owner_test

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/owner/hosts"
	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// signs makes certificates count: an owner's signature is its name and the text. Known names the
// earlier owners that were seen to serve the host.
func signs(cfg *owner.Config, known ...string) {
	cfg.Sign = func(text []byte) []byte { return append([]byte(cfg.Self+" signs "), text...) }
	cfg.Certified = func(by string, _ ring.Key, text, signature []byte) bool {
		return (by == cfg.Self || slices.Contains(known, by)) && string(signature) == by+" signs "+string(text)
	}
}

// among is a scene in which only some workers stand near the owner.
func among(t *testing.T, near ...string) *scene {
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) {
		cfg.Near = func(worker string) bool { return slices.Contains(near, worker) }
		signs(cfg)
	})
	s.placed(s.post(0, pages("a.example", 10)...), "w1")
	return s
}

func (s *scene) unasked(from string, m *wire.Session) (n int) {
	s.t.Helper()
	m.Incarnation = 1
	ready := s.do(func(o *owner.Owner) {
		v := o.Visit(from, m)
		for !v.Go() {
		}
		n = v.Unasked
		if took := v.Taken[s.id]; n > 0 && took > 0 || n == 0 && took != uint64(len(m.GetHosts()[0].GetFetched())) {
			s.t.Errorf("%d outcomes count as taken", took)
		}
	})
	if len(ready.NeedJobs) > 0 {
		s.t.Errorf("jobs %v are asked for", ready.NeedJobs)
	}
	return n
}

// TestStrangersReportNothing: what a peer reports of a host that it never had changes nothing,
// whatever epoch and certificate it names, also if it is a neighbor.
func TestStrangersReportNothing(t *testing.T) {
	for _, held := range []bool{false, true} {
		s := among(t, "w1", "w0")
		epoch := &wire.Epoch{}
		var stolen *wire.Certificate
		if held {
			g := s.ask("w1", "a.example", nil, 3)
			epoch = g.GetEpoch()
			stolen = &wire.Certificate{Epoch: epoch, Signature: g.GetSignature()}
		}
		own := ondisk.Epoch{Counter: 7, Peer: "x"}
		forged := &wire.Certificate{Epoch: own.Wire(), Signature: append([]byte("x signs "), hosts.SignedLease("a.example", "x", own)...)}
		for _, by := range []*wire.Certificate{nil, stolen, forged} {
			e := by.GetEpoch()
			if by == nil {
				e = epoch
			}
			lie := &wire.HostWork{
				Host: "a.example", Epoch: e, Certificate: by, Want: 5, Addrs: [][]byte{{192, 0, 2, 66}}, BackoffMs: 86_400_000, BackoffReason: "no",
				Fetched: []*wire.Fetched{s.got("http://a.example/00", link.OutcomeOK, "http://b.example/lie"), s.got("http://a.example/made-up", link.OutcomeOK)},
				Robots:  []*wire.Robots{{Origin: "http://a.example", State: robotsState(t, s.now)}},
			}
			unknown := job.NewID() // is not asked for: a stranger may name any
			made := []*wire.Fetched{{Job: unknown[:], Url: []byte("http://made-up.example/")}}
			for _, from := range []string{"x", "w0"} {
				if n := s.unasked(from, &wire.Session{Hosts: []*wire.HostWork{lie, {Host: "made-up.example", Fetched: made}}}); n != 3 {
					t.Errorf("held %v, certificate %v: %d outcomes of %s were left aside", held, by, n, from)
				}
			}
		}
		if f := s.fate("http://a.example/00"); f.Final.Outcome != link.OutcomeNone {
			t.Errorf("held %v: %+v", held, f)
		}
		if c := s.owner.Counts(s.id); c.Accepted != 10 || c.Done != 0 {
			t.Errorf("held %v: %+v", held, c)
		}
		s.wait(20 * time.Second)
		if d, _ := s.owner.Host("a.example"); len(d.Robots) != 0 {
			t.Errorf("held %v: the owner keeps %v", held, d.Robots)
		}
		if g := s.lease("w1", "a.example", 3); len(g.GetAddrs()) != 0 || g.GetNotBeforeMs() > 1000 {
			t.Errorf("held %v: the next worker hears %v", held, g)
		}
	}
}

// TestLateWorkersAreBelieved: who had a host reports what it fetched long after its lease, also
// when the owner started again or another has the host; and may take it when its yes comes late.
func TestLateWorkersAreBelieved(t *testing.T) {
	for name, between := range map[string]func(s *scene){
		"lapsed":          func(s *scene) { s.wait(time.Minute) },
		"lapsed long ago": func(s *scene) { s.wait(48 * time.Hour) },
		"another has it":  func(s *scene) { s.placed(s.wait(time.Minute), "w2"); s.ask("w2", "a.example", nil, 1) },
		"the owner's end": func(s *scene) { s.open(s.now) },
	} {
		s := among(t)
		g := s.ask("w1", "a.example", nil, 3)
		url := granted(g)[0]
		between(s)
		by := &wire.Certificate{Epoch: g.GetEpoch(), Signature: g.GetSignature()}
		if n := s.unasked("w1", &wire.Session{Hosts: []*wire.HostWork{{Host: "a.example", Certificate: by, Fetched: []*wire.Fetched{s.got(url, link.OutcomeOK)}}}}); n != 0 {
			t.Errorf("%s: %d outcomes were left aside", name, n)
		}
		if f := s.fate(url); f.Final.Outcome != link.OutcomeOK {
			t.Errorf("%s: %+v", name, f)
		}
	}
	s := among(t)
	s.wait(3 * time.Second) // the offer's time is over
	s.ask("w1", "a.example", nil, 1)
}

// TestHostsAreEarned: a worker that does not stand near gets one host, and more once it has told of
// pages. One that tells nothing for long is left neither the host nor its URLs; others keep theirs.
func TestHostsAreEarned(t *testing.T) {
	for _, near := range []bool{false, true} {
		s := among(t)
		if near {
			s = among(t, "w1")
		}
		epoch := s.ask("w1", "a.example", nil, 3).GetEpoch()
		offered := func(host string) bool {
			offers := s.placed(s.post(0, pages(host, 3)...), "w1")
			return len(offers) == 1 && offers[0].Worker == "w1"
		}
		if offered("b.example") != near {
			t.Errorf("near %v: offered a second host before it told of a page: %v", near, !near)
		}
		s.tell("w1", "a.example", epoch, s.got("http://a.example/00", link.OutcomeOK))
		if !offered("c.example") {
			t.Errorf("near %v: offered no host after it told of a page", near)
		}
		held := func(minutes int) (revoked int) {
			for range minutes * 60 {
				s.wait(time.Second)
				reply, _ := s.say("w1", &wire.Session{Held: []*wire.HostLease{{Host: "a.example", Epoch: epoch}}})
				revoked += len(reply.GetRevoked())
			}
			return revoked
		}
		early := held(9)
		s.tell("w1", "a.example", epoch, s.got("http://a.example/01", link.OutcomeOK))
		if early += held(9); early > 0 {
			t.Errorf("near %v: taken away early", near)
		}
		if late := held(3); (late > 0) == near {
			t.Errorf("near %v: revoked %d times", near, late)
		}
	}
}

// TestHostsMoveWithTheirWorkers: a worker that stands near nobody keeps its host when the owner
// changes: it owes an outcome from then on.
func TestHostsMoveWithTheirWorkers(t *testing.T) {
	a, ring := newArcScene(t, "self", true, nil)
	a.post(0, pages(host, 20)...)
	g := a.lease("home", host, 6)
	b, _ := newArcScene(t, "next", true, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.Near = func(string) bool { return false } })
	handoff(a, b, host)
	ring.mine = false
	for range 9 * 60 {
		b.wait(time.Second)
		if reply, _ := b.say("home", heartbeat(g.GetEpoch())); len(reply.GetRevoked()) > 0 {
			t.Fatalf("taken away %v after the host had moved", b.now.Sub(a.now))
		}
	}
}

// TestCertificatesOfEarlierOwners: the worker of an earlier owner reports to the next one, if that
// one saw the earlier owner serve the host; a lease note counts under the same condition.
func TestCertificatesOfEarlierOwners(t *testing.T) {
	for _, seen := range []bool{false, true} {
		a, ring := newArcScene(t, "self", true, func(_ *wire.JobSpec, cfg *owner.Config) { signs(cfg) })
		a.post(0, pages(host, 20)...)
		g := a.lease("home", host, 6)
		b, _ := newArcScene(t, "next", true, func(_ *wire.JobSpec, cfg *owner.Config) {
			if signs(cfg); seen {
				signs(cfg, "self")
			}
		})
		note, ok := a.owner.Lease(posOf(host))
		if !ok {
			t.Fatal("no lease note")
		}
		ring.mine = false
		b.post(0, pages(host, 20)...)
		var err error
		b.do(func(o *owner.Owner) { err = o.Adopt(note) })
		if (err == nil) != seen {
			t.Errorf("seen %v: lease note: %v", seen, err)
		}
		b.wait(time.Minute) // the lease is over
		by := &wire.Certificate{Epoch: g.GetEpoch(), Signature: g.GetSignature()}
		url := granted(g)[0]
		b.unasked("home", &wire.Session{Hosts: []*wire.HostWork{{Host: host, Certificate: by, Fetched: []*wire.Fetched{b.got(url, link.OutcomeOK)}}}})
		if f := b.fate(url); (f.Final.Outcome == link.OutcomeOK) != seen {
			t.Errorf("seen %v: %+v", seen, f)
		}
	}
}
