package session

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// TestLifeOfALease: a host is offered, wished for, granted, reported, dry for a while, and given
// back.
func TestLifeOfALease(t *testing.T) {
	b := newBench(t)
	b.offer("owner", "a.example")
	s := b.with("owner")
	if !s.Due().Equal(b.now) || b.woken[s] != 1 {
		t.Errorf("due at %v, woken %d times", s.Due(), b.woken[s])
	}
	m := b.message("owner")
	if w := work(m, "a.example"); w.GetWant() != firstWindow || w.GetEpoch() != nil || len(m.Message.GetHeld()) != 0 {
		t.Errorf("the wish is told as %v", w)
	}
	b.answer("owner", m, &wire.SessionReply{Grants: []*wire.Grant{grant("a.example", 1, 1)}})
	l := b.Lease("a.example")
	if !l.Granted() || l.Until() != 6*time.Second || !l.Holds(6*time.Second-1) || l.Holds(6*time.Second) {
		t.Errorf("granted %v until %v", l.Granted(), l.Until())
	}
	if want := b.now.Add(2 * time.Second); !s.Due().Equal(want) {
		t.Errorf("renewed after %v", s.Due().Sub(b.now))
	}
	b.now = b.now.Add(time.Second)
	b.fetch(l)
	if !s.Due().Equal(b.now) {
		t.Errorf("the last outcome waits for %v", s.Due().Sub(b.now))
	}
	m = b.message("owner")
	if w := work(m, "a.example"); len(w.GetFetched()) != 1 || w.GetWant() != 256 || w.GetRelease() || len(m.Message.GetHeld()) != 1 {
		t.Errorf("the outcome is told as %v", w)
	}
	b.answer("owner", m, new(wire.SessionReply))
	if l.Until() != 7*time.Second {
		t.Errorf("renewed until %v", l.Until())
	}
	if got := s.Due().Sub(b.now); got != 250*time.Millisecond {
		t.Errorf("a dry host is given back after %v", got)
	}
	b.now = s.Due()
	m = b.message("owner")
	if w := work(m, "a.example"); !w.GetRelease() || len(m.Message.GetHeld()) != 0 || !l.Over() || b.Leases() != 0 || len(b.forgotten) != 1 {
		t.Errorf("given back as %v", w)
	}
	if s.Over() {
		t.Error("over before the release is acknowledged")
	}
	b.answer("owner", m, new(wire.SessionReply))
	if !s.Over() || b.Machine.Acknowledged() != 1 {
		t.Errorf("over %v, %d acknowledged", s.Over(), b.Machine.Acknowledged())
	}
	if b.End(s); len(b.Sessions()) != 0 {
		t.Error("the session is still there")
	}
}

// TestWhatHolds: only an answer that renews a lease prolongs it.
func TestWhatHolds(t *testing.T) {
	for name, reply := range map[string]*wire.SessionReply{
		"not renewed": {NotRenewed: []string{"a.example"}},
		"moved":       {Moved: []string{"a.example"}},
	} {
		b := newBench(t)
		l := b.lease("owner", "a.example", 10)
		b.now = b.now.Add(2 * time.Second)
		if b.answerRouted("owner", b.message("owner"), reply, nil); l.Until() != 6*time.Second {
			t.Errorf("%s: until %v", name, l.Until())
		}
	}
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	b.now = b.now.Add(2 * time.Second)
	m := b.message("owner")
	sent := b.clock()
	b.now = b.now.Add(3 * time.Second)
	if b.Answered(b.now, b.with("owner"), m, &wire.SessionReply{TtlMs: 4000}, sent, nil); l.Until() != 6*time.Second {
		t.Errorf("a shorter TTL cuts the lease to %v", l.Until())
	}
	b.Answered(b.now, b.with("owner"), b.message("owner"), &wire.SessionReply{TtlMs: 40000}, sent, nil)
	if l.Until() != sent+30*time.Second {
		t.Errorf("until %v, want it from the sending on", l.Until())
	}
}

// TestRenewal checks that leases that no answer has renewed for three eighths of the TTL are
// renewed by a message that does nothing else.
func TestRenewal(t *testing.T) {
	b := newBench(t)
	first, second := b.lease("owner", "a.example", 10), b.lease("owner", "b.example", 10)
	b.offer("owner", "c.example")
	s := b.with("owner")
	if m, _ := b.Renewal(s, 3*time.Second-1); m != nil {
		t.Errorf("early: %v", m)
	}
	m, held := b.Renewal(s, 3*time.Second)
	if m == nil || m.Validate() != nil || m.GetSeq() != 0 || m.GetIncarnation() != 7 || len(m.GetHosts()) != 0 || len(m.GetHeld()) != 2 || len(held) != 2 {
		t.Fatalf("%v", m)
	}
	b.Renewed(s, held, &wire.SessionReply{NotRenewed: []string{"b.example"}}, 3*time.Second)
	if first.Until() != 9*time.Second || second.Until() != 6*time.Second {
		t.Errorf("until %v and %v, want 9s and 6s", first.Until(), second.Until())
	}
	if m, _ := b.Renewal(s, 6*time.Second-1); m != nil {
		t.Errorf("soon after an answer: %v", m)
	}
}

// TestLapse: leases end by the lease clock.
func TestLapse(t *testing.T) {
	b := newBench(t)
	first := b.lease("owner", "a.example", 10)
	b.now = b.now.Add(time.Second)
	second := b.lease("other", "b.example", 10)
	b.offer("other", "c.example")
	if lapsed, next := b.Lapse(b.now, 6*time.Second-1); len(lapsed) != 0 || next != 6*time.Second {
		t.Errorf("%d lapsed, the next at %v", len(lapsed), next)
	}
	if lapsed, next := b.Lapse(b.now, 6*time.Second); len(lapsed) != 1 || lapsed[0] != first || !first.Over() || next != 7*time.Second {
		t.Errorf("%d lapsed, the next at %v", len(lapsed), next)
	}
	if lapsed, _ := b.Lapse(b.now, 7*time.Second); len(lapsed) != 1 || lapsed[0] != second || b.Lease("c.example") == nil {
		t.Errorf("%d lapsed", len(lapsed))
	}
}

// TestOfferedAgain: an offer that overtakes the end of a lease is taken up after it.
func TestOfferedAgain(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	if declined := b.offer("other", "a.example"); len(declined) != 1 {
		t.Error("another owner's offer of what is held is taken")
	}
	if declined := b.offer("owner", "a.example"); len(declined) != 0 {
		t.Error("the owner's offer is declined")
	}
	b.answer("owner", b.message("owner"), &wire.SessionReply{Revoked: []string{"a.example"}})
	wish := b.Lease("a.example")
	if !l.Over() || wish == nil || wish == l || wish.Granted() || len(b.forgotten) != 1 {
		t.Fatalf("after the revocation: %+v", wish)
	}
	if w := work(b.message("owner"), "a.example"); w.GetWant() == 0 || w.GetEpoch() != nil {
		t.Errorf("it is wished for as %v", w)
	}
}

// TestNotGranted: a wish that is not granted is over.
func TestNotGranted(t *testing.T) {
	b := newBench(t)
	b.offer("owner", "a.example")
	if b.answer("owner", b.message("owner"), new(wire.SessionReply)); b.Leases() != 0 || !b.with("owner").Over() {
		t.Error("it is still wished for")
	}
}

// TestDeclined: what is granted under a lease that is not held goes back with its URLs, and makes a
// lease of another epoch void.
func TestDeclined(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	other := grant("a.example", 2, 5)
	other.Url[4] = []byte("http://b.example/") // not of this host
	b.answer("owner", b.message("owner"), &wire.SessionReply{Grants: []*wire.Grant{other, grant("c.example", 3, 2)}})
	if !l.Over() || b.Leases() != 0 {
		t.Error("the old lease is held")
	}
	m := b.message("owner")
	for host, want := range map[string]struct {
		epoch    uint64
		returned int
	}{"a.example": {2, 4}, "c.example": {3, 2}} {
		if w := work(m, host); !w.GetRelease() || w.GetEpoch().GetCounter() != want.epoch || len(w.GetReturned()) != want.returned {
			t.Errorf("%s is given back as %v", host, w)
		}
	}
}

// TestClose: a host that is closed is given back once its pages are reported, with the URLs that
// were not tried, and takes no more.
func TestClose(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	l.Piped++
	b.Close(b.now, l, 5*time.Second, "it asks for silence")
	b.Close(b.now, l, time.Second, "another reason")
	if w := work(b.message("owner"), "a.example"); w != nil {
		t.Errorf("before its page is reported: %v", w)
	}
	l.Piped--
	b.owed = 1500 * time.Microsecond
	b.Report(b.now, reportOf(l, "http://a.example/x"))
	b.Changed(b.now, l)
	w := work(b.message("owner"), "a.example")
	if !w.GetRelease() || len(w.GetFetched()) != 1 || len(w.GetReturned()) != 10 || w.GetBackoffMs() != 5001 || w.GetBackoffReason() != "it asks for silence" || w.GetOwedMs() != 3 {
		t.Errorf("given back as %v", w)
	}

	b.offer("owner", "b.example", "c.example")
	b.Accept(false)
	m := b.message("owner")
	b.CloseAll(b.now)
	if b.Leases() != 0 {
		t.Error("wishes are kept")
	}
	b.answer("owner", m, &wire.SessionReply{Grants: []*wire.Grant{grant("b.example", 4, 3)}})
	if w := work(b.message("owner"), "b.example"); !w.GetRelease() || len(w.GetReturned()) != 3 {
		t.Errorf("granted after the end: %v", w)
	}
	if declined := b.offer("owner", "d.example"); len(declined) != 1 {
		t.Error("an offer is taken after the end")
	}
}

// TestTurnedAway: a driver that has no room for what a grant says of a host has it given back.
func TestTurnedAway(t *testing.T) {
	b := newBench(t)
	b.turnAway = 5 * time.Second
	l := b.lease("owner", "a.example", 4)
	if w := work(b.message("owner"), "a.example"); !w.GetRelease() || len(w.GetReturned()) != 4 || w.GetBackoffReason() != "turned away" || !l.Over() {
		t.Errorf("given back as %v", w)
	}
}

// TestReleaseTellsAgain: a host that is given back in a message without an answer is given back in
// the next one.
func TestReleaseTellsAgain(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	b.Close(b.now, l, 0, "")
	for range 2 {
		m := b.message("owner")
		if w := work(m, "a.example"); !w.GetRelease() {
			t.Errorf("%v is told", m.Message)
		}
		b.Unanswered(b.now, b.with("owner"), m)
	}
}
