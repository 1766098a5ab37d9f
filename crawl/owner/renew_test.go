package owner_test

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
)

// TestRenew checks that a renewal prolongs the leases of its sender, and no others, and that a
// lease without one ends.
func TestRenew(t *testing.T) {
	s := newScene(t, nil)
	s.post(0, "http://a.example/", "http://b.example/")
	a, b := s.lease("one", "a.example", 10), s.lease("two", "b.example", 10)
	held := func(grants ...*wire.Grant) *wire.Session {
		m := &wire.Session{Incarnation: 1}
		for _, g := range grants {
			m.Held = append(m.Held, &wire.HostLease{Host: g.GetHost(), Epoch: g.GetEpoch()})
		}
		return m
	}
	renew := func(from string, m *wire.Session, want ...string) {
		t.Helper()
		var got []string
		s.do(func(o *owner.Owner) { got = o.Renew(s.now, from, m).GetNotRenewed() })
		if !slices.Equal(got, want) {
			t.Errorf("not renewed %q, want %q", got, want)
		}
	}
	for range 3 {
		s.wait(5 * time.Second)
		renew("one", held(a))
	}
	renew("one", held(b), "b.example")
	renew("three", held(a), "a.example")
	other := held(a)
	other.Incarnation = 2
	renew("one", other, "a.example")
	if f := s.fate("http://a.example/"); f.State != "leased" {
		t.Errorf("renewed three times, and %s", f.State)
	}
	if f := s.fate("http://b.example/"); f.State == "leased" {
		t.Error("not renewed, and leased after 15s")
	}
}
