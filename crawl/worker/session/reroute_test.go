package session

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/wire"
)

// TestWishOfTheDead: the wish for a host whose owner does not answer goes to whoever owns it now,
// which may offer it as well.
func TestWishOfTheDead(t *testing.T) {
	b := newBench(t)
	b.offer("owner", "a.example")
	s := b.with("owner")
	b.Unanswered(b.now, s, b.message("owner"))
	if declined := b.offer("next", "a.example"); len(declined) != 1 {
		t.Error("another owner's offer is taken while the first may yet grant")
	}
	routes := make(map[string]string)
	for _, host := range s.Hosts() {
		routes[host] = "next"
	}
	if b.Follow(b.now, s, routes); !s.Over() {
		t.Error("it is still wished for from the dead")
	}
	if declined := b.offer("next", "a.example"); len(declined) != 0 {
		t.Error("the new owner's offer is declined")
	}
	if w := work(b.message("next"), "a.example"); w.GetWant() == 0 {
		t.Errorf("the new owner is told %v", w)
	}
}

// TestReroute: a host that moves takes its lease, its outcomes and its release along; owners that
// send us to each other are asked ever later.
func TestReroute(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	gone := b.lease("owner", "b.example", 1)
	b.fetch(l)
	b.Close(b.now, gone, 0, "")
	m := b.message("owner")
	b.answerRouted("owner", m, &wire.SessionReply{Moved: []string{"a.example", "b.example"}}, map[string]string{"a.example": "next", "b.example": ""})
	if l.Owner() != "next" || l.Over() || b.Lease("a.example") != l {
		t.Errorf("the lease is with %s", l.Owner())
	}
	if !b.with("owner").Due().Equal(b.now.Add(50 * time.Millisecond)) {
		t.Error("an owner is asked at once for what nobody else is known for")
	}
	if m := b.message("next"); len(m.Reports) != 1 || len(m.Message.GetHeld()) != 1 {
		t.Errorf("the next owner is told %v", m.Message)
	}
	if w := work(b.message("owner"), "b.example"); !w.GetRelease() {
		t.Error("the release is not told again")
	}
	s := b.with("owner")
	b.Reroute(b.now, s, "b.example", "next")
	if !s.Over() || work(b.message("next"), "b.example") == nil {
		t.Error("the release did not go along")
	}

	from, to := "next", "third"
	for i, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
		s := b.with(from)
		b.Reroute(b.now, s, "a.example", to)
		if s.Over() {
			b.End(s)
		}
		if got := b.with(to).Due().Sub(b.now); got != want*time.Millisecond {
			t.Errorf("after %d owners the next is asked after %v, want %d ms", i+2, got, want)
		}
		b.with(to).Begin()
		from, to = to, from
	}
}

// TestBackToTheOwner: an owner that could not hand a host on and has it back is not told that its
// earlier answers were lost: it would grant the same URLs once more.
func TestBackToTheOwner(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	granted := b.with("owner").ack
	for _, to := range []string{"next", "owner"} {
		s := b.with(l.Owner())
		b.Reroute(b.now, s, "a.example", to)
		b.End(s)
	}
	if m := b.message("owner").Message; len(m.GetHeld()) != 1 || m.GetAck() < granted || m.GetAck() >= m.GetSeq() {
		t.Errorf("message %d says that the answers since %d are lost; %d granted the URLs", m.GetSeq(), m.GetAck(), granted)
	}
}

// TestFetchedAndUntold: what was fetched under a lease that is over, and could not be told as its
// owner did not answer, is not fetched again when another owner grants it: it is told.
func TestFetchedAndUntold(t *testing.T) {
	b := newBench(t)
	l := b.lease("gone", "a.example", 2)
	r := b.fetch(l)
	s := b.with("gone")
	b.Unanswered(b.now, s, b.message("gone"))
	b.Revoke(b.now, l)
	again := b.lease("next", "a.example", 2)
	if again == nil || len(b.windows["a.example"]) != 1 || b.windows["a.example"][0].URL == string(r.Fetched.GetUrl()) {
		t.Errorf("to be fetched: %v", b.windows["a.example"])
	}
	b.Reroute(b.now, s, "a.example", "next")
	m := b.message("next")
	if len(m.Reports) != 1 {
		t.Fatalf("the next owner is told %v", m.Reports)
	}
	if c := work(m, "a.example").GetCertificate(); c == nil || c != r.Lease.certificate {
		t.Errorf("certificate %v, fetched under %v", c, r.Lease.certificate)
	}
}
