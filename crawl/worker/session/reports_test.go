package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
)

// TestReportBetween: a report that comes while the archive is synced is not in the message, and has
// another one follow.
func TestReportBetween(t *testing.T) {
	b := newBench(t)
	l := b.lease("owner", "a.example", 10)
	s := b.with("owner")
	b.fetch(l)
	n := s.Begin()
	b.fetch(l)
	m := b.Turn(b.now, s, min(n, s.Ready()), nil)
	if len(m.Reports) != 1 || s.Ready() != 1 || !s.Due().Equal(b.now.Add(150*time.Millisecond)) {
		t.Errorf("%d told, %d wait, the next message after %v", len(m.Reports), s.Ready(), s.Due().Sub(b.now))
	}
}

// TestReportsWait: outcomes leave together, at once when they are many or nothing else is to be
// done.
func TestReportsWait(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ReportBatch = 3 })
	l := b.lease("owner", "a.example", 200)
	s := b.with("owner")
	for i, want := range []time.Duration{150 * time.Millisecond, 150 * time.Millisecond, 0} {
		if full := b.Report(b.now, reportOf(l, "http://a.example/")); full != (want == 0) || s.Due().Sub(b.now) != want {
			t.Errorf("after %d: full %v, due in %v", i+1, full, s.Due().Sub(b.now))
		}
	}
}

// TestNotTaken: what an owner refuses, or does not hear, is told again in its order, ever later,
// and forgotten beyond a bound.
func TestNotTaken(t *testing.T) {
	for _, refused := range []bool{true, false} {
		b := newBench(t, func(c *Config) { c.MaxReports = 3 })
		l := b.lease("owner", "a.example", 10)
		s := b.with("owner")
		var all []*Report
		for i, want := range []time.Duration{50, 100, 200, 400, 800, 1000, 1000} {
			if i < 5 {
				all = append(all, b.fetch(l))
			}
			m := b.message("owner")
			if refused {
				b.answer("owner", m, &wire.SessionReply{Refused: []string{"a.example"}})
			} else {
				b.Unanswered(b.now, s, m)
			}
			if got := s.Due().Sub(b.now); got != want*time.Millisecond {
				t.Errorf("refused %v: asked again after %v, want %v ms", refused, got, int64(want))
			}
			if b.Answering() != 0 || b.UnackedBytes() != 0 || b.Unreported() != min(i+1, 3) {
				t.Errorf("refused %v: %d reports, %d bytes to an owner that takes none, %d in all", refused, b.Answering(), b.UnackedBytes(), b.Unreported())
			}
			b.now = s.Due()
		}
		m := b.message("owner")
		if !slices.Equal(m.Reports, all[2:]) || b.Dropped() != 2 {
			t.Errorf("refused %v: %d are told, %d dropped", refused, len(m.Reports), b.Dropped())
		}
		b.answer("owner", m, new(wire.SessionReply))
		if !slices.Equal(b.hands.acknowledged, all[2:]) || s.Bytes() != 0 || l.untold != 0 {
			t.Errorf("refused %v: %d acknowledged, %d bytes and %d outcomes are left", refused, len(b.hands.acknowledged), s.Bytes(), l.untold)
		}
	}
}

// TestDroppedWhole: the oldest outcome is dropped with the pieces that go ahead of it.
func TestDroppedWhole(t *testing.T) {
	b := newBench(t, func(c *Config) { c.MaxReports = 4 })
	l := b.lease("owner", "a.example", 10)
	for range 3 {
		r := reportOf(l, "http://a.example/")
		r.Piece = true
		b.Report(b.now, r)
	}
	b.Report(b.now, reportOf(l, "http://a.example/"))
	b.Report(b.now, reportOf(l, "http://a.example/1"))
	s := b.with("owner")
	b.Unanswered(b.now, s, b.message("owner"))
	if s.Ready() != 1 || b.Dropped() != 1 || l.untold != 1 {
		t.Errorf("%d reports are left, %d were dropped", s.Ready(), b.Dropped())
	}
}

// TestMessagesHold: a message has no more than may be in one, and what is left follows.
func TestMessagesHold(t *testing.T) {
	b := newBench(t, func(c *Config) { c.ReportBatch = 1 << 20 })
	l := b.lease("owner", "a.example", 1)
	for range 3000 {
		b.Report(b.now, reportOf(l, "http://a.example/"+strings.Repeat("x", 1500)))
	}
	s := b.with("owner")
	for s.Ready() > 0 {
		before := s.Ready()
		m := b.message("owner")
		if len(m.Reports) == 0 || len(m.Reports) > wire.MaxFetched || proto.Size(m.Message) > MaxMessage+1<<10 {
			t.Fatalf("a message of %d outcomes and %d bytes", len(m.Reports), proto.Size(m.Message))
		}
		if s.Ready() > 0 && !s.Due().Equal(b.now) {
			t.Errorf("%d of %d wait until %v", s.Ready(), before, s.Due())
		}
		b.answer("owner", m, new(wire.SessionReply))
	}
	for i := range wire.MaxHosts + 10 {
		s.releases = append(s.releases, &release{&Lease{}, &wire.HostWork{Host: fmt.Sprintf("h%d.example", i), Release: true}})
	}
	m := b.message("owner")
	b.answer("owner", m, new(wire.SessionReply))
	if len(m.Message.GetHosts()) >= wire.MaxHosts || len(s.releases) == 0 || len(s.releases) > 20 {
		t.Errorf("%d hosts in a message, %d wait", len(m.Message.GetHosts()), len(s.releases))
	}
}
