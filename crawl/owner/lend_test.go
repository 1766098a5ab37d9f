package owner_test

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// borrow asks for a host for the sake of another one.
func (s *scene) borrow(peer, host, sake string) *wire.LoanReply {
	s.t.Helper()
	var reply *wire.LoanReply
	s.do(func(o *owner.Owner) { reply = o.Lend(peer, &wire.Loan{Host: host, Sake: sake}) })
	if err := reply.Validate(); err != nil {
		s.t.Fatal(err)
	}
	return reply
}

// restore says that a loan is over.
func (s *scene) restore(peer, host string, lent *wire.LoanReply) owner.Ready {
	return s.do(func(o *owner.Owner) { o.Lend(peer, &wire.Loan{Host: host, Number: lent.GetNumber()}) })
}

// offered says whether a worker gets a host that is offered to it, and which asks for it.
func (s *scene) offered(worker, host string) bool {
	s.t.Helper()
	s.placed(s.do(nil), worker)
	reply, _ := s.say(worker, &wire.Session{Hosts: []*wire.HostWork{{Host: host, Want: 4}}})
	return len(reply.GetGrants()) == 1
}

// TestLentHostIsLeasedToNobody: neither before the loan is over nor, where nobody says so, before its time is; politeness is owed then.
func TestLentHostIsLeasedToNobody(t *testing.T) {
	const host = "b.example"
	for _, known := range []bool{true, false} {
		s := newScene(t, nil)
		post := func() { s.post(0, pages(host, 20)...) }
		if known {
			post()
		}
		lent := s.borrow("v", host, "a.example")
		if lent.GetNumber() == 0 || lent.GetLentMs() != wire.MaxLoanMs {
			t.Fatalf("a free host: %v", lent)
		}
		if !known {
			if _, ok := s.owner.Host(host); ok {
				t.Error("it has a record by being lent")
			}
			post()
		}
		s.wait(20 * time.Second)
		if s.offered("w", host) || s.offered("v", host) {
			t.Error("leased while it was lent")
		}
		if r := s.borrow("w", host, "a.example"); r.GetNumber() > 0 || r.GetWaitMs() == 0 {
			t.Errorf("lent to two: %v", r)
		}
		s.restore("v", host, lent)
		s.wait(time.Second)
		if !s.offered("w", host) {
			t.Error("not leased after the loan")
		}

		s = newScene(t, nil)
		if known {
			post()
		}
		s.borrow("v", host, "a.example")
		if !known {
			post()
		}
		s.wait(59 * time.Second)
		if s.offered("w", host) {
			t.Error("leased before the loan's time was over")
		}
		s.wait(2 * time.Second)
		if !s.offered("w", host) {
			t.Error("not leased after the loan's time was over")
		}
	}
}

// TestLoanIsHeededAfterACrash: what an owner has lent is owed politeness by its record.
func TestLoanIsHeededAfterACrash(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, pages("b.example", 20)...)
	s.borrow("v", "b.example", "a.example")
	s.wait(time.Second)
	s.open(s.now)
	if r := s.borrow("w", "b.example", "a.example"); r.GetNumber() > 0 || r.GetWaitMs() != 60_000 {
		t.Errorf("after a crash: %v", r)
	}
	if places := s.wait(58 * time.Second).Places; len(places) > 0 {
		t.Errorf("placed after a crash: %v", places)
	}
	if g := s.lease("w", "b.example", 4); g.GetNotBeforeMs() != 2000 {
		t.Errorf("politeness owed after a crash: %d ms", g.GetNotBeforeMs())
	}
}

// TestLeasedHostIsGivenBackForALoan: with the next grant, and it is kept for who asked.
func TestLeasedHostIsGivenBackForALoan(t *testing.T) {
	const host = "b.example"
	s := newScene(t, nil)
	s.post(0, pages(host, 20)...)
	g := s.lease("w", host, 4)
	if r := s.borrow("w", host, "a.example"); r.GetNumber() > 0 || r.GetWaitMs() != 250 {
		t.Errorf("to who is said to have it: %v", r)
	}
	if g := s.ask("w", host, g.GetEpoch(), 2); g.GetGiveBack() {
		t.Error("given back for its own worker")
	}
	if r := s.borrow("v", host, "a.example"); r.GetNumber() > 0 || r.GetWaitMs() != 250 {
		t.Errorf("leased: %v", r)
	}
	if g := s.ask("w", host, g.GetEpoch(), 4); !g.GetGiveBack() || len(g.GetUrl()) > 0 {
		t.Errorf("granted while somebody waits: %v", g)
	}
	s.wait(200 * time.Millisecond)
	s.giveBack("w", g, 500)
	if s.offered("w", host) {
		t.Error("leased while it was kept")
	}
	if r := s.borrow("v", host, "a.example"); r.GetWaitMs() != 500 {
		t.Errorf("politeness is owed: %v", r)
	}
	s.wait(500 * time.Millisecond)
	lent := s.borrow("v", host, "a.example")
	if lent.GetNumber() == 0 {
		t.Fatalf("not lent in its turn: %v", lent)
	}
	s.wait(100 * time.Millisecond)
	s.restore("v", host, lent)
	if r := s.borrow("v", host, "a.example"); r.GetNumber() > 0 || r.GetWaitMs() != 300 {
		t.Errorf("at once again: %v", r)
	}
	s.placed(s.wait(time.Second), "x")
	if !s.offered("x", host) {
		t.Error("not leased after the loan")
	}
	if d, _ := s.owner.Host(host); d.PlacedWhy != "test; placed anew, as it was lent meanwhile for the rules of another host" {
		t.Errorf("placed %q", d.PlacedWhy)
	}
}

// TestNobodyComesForALoan: a host is not kept for long.
func TestNobodyComesForALoan(t *testing.T) {
	const host = "b.example"
	s := newScene(t, nil)
	s.post(0, pages(host, 20)...)
	g := s.lease("w", host, 4)
	s.borrow("v", host, "a.example")
	s.giveBack("w", g, 0)
	s.wait(2 * time.Second)
	if s.offered("w", host) {
		t.Error("not kept")
	}
	s.wait(250 * time.Millisecond)
	if !s.offered("w", host) {
		t.Error("kept for long")
	}
}

// TestCirclesOfLoansEnd: of two hosts whose workers wait for each other's, one is taken from its worker.
func TestCirclesOfLoansEnd(t *testing.T) {
	s := newScene(t, nil)
	epochs := make(map[string]*wire.Epoch)
	held := map[string]string{"v": "a.example", "w": "b.example"}
	for worker, host := range held {
		s.post(0, pages(host, 20)...)
		epochs[host] = s.lease(worker, host, 4).GetEpoch()
	}
	var lent *wire.LoanReply
	for range 60 {
		s.wait(500 * time.Millisecond)
		for worker, host := range held {
			reply, _ := s.say(worker, &wire.Session{Held: []*wire.HostLease{{Host: host, Epoch: epochs[host]}}})
			if slices.Contains(reply.GetRevoked(), host) {
				delete(held, worker)
			}
		}
		if r := s.borrow("v", "b.example", "a.example"); r.GetNumber() > 0 {
			lent = r
			break
		}
		if held["w"] != "" {
			s.borrow("w", "a.example", "b.example")
		}
	}
	if lent == nil || held["v"] == "" || held["w"] != "" {
		t.Errorf("lent %v, held %v", lent, held)
	}
}

// TestWhatIsNotLent: a host that has opted out, or is measured, or another's.
func TestWhatIsNotLent(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.RequestTime = 5 * time.Second })
	s.do(func(o *owner.Owner) { o.OptOut("out.example", true, "by proof") })
	if r := s.borrow("v", "out.example", "a.example"); r.GetRefused() == "" {
		t.Errorf("opted out: %v", r)
	}
	s.post(0, pages("b.example", 40)...)
	if r := s.borrow("v", "b.example", "a.example"); r.GetNumber() > 0 || r.GetWaitMs() < 4000 {
		t.Errorf("while it is measured: %v", r)
	}
	cfg := owner.Config{Self: "self"}
	p := newPeer(t, cfg, share{1, 0x100}, jobTable{}, s.now)
	p.step(s.now, func(o *owner.Owner) {
		if r := o.Lend("v", &wire.Loan{Host: "a.example"}); r != nil {
			t.Errorf("another's: %v", r)
		}
	})
}
