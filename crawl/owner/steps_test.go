package owner_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/ownertest"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// What a step does is bounded whatever pages bring: nobody is answered meanwhile.

// TestReviewTakesManySteps: what concerns all hosts in memory is done with some of them in each
// step, and in the end with all.
func TestReviewTakesManySteps(t *testing.T) {
	const hosts = 3000
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.MaxPlacing, cfg.PlaceTimeout = 8, time.Hour })
	s.check = false
	asked := &counting{Ring: s.ring}
	s.ring = asked
	s.open(s.now)
	s.post(0, wide(0, hosts)...)
	for _, row := range []struct {
		name string
		do   func(o *owner.Owner)
	}{
		{"the ring changes", func(o *owner.Owner) { o.SettledChanged() }},
		{"a job changes", func(o *owner.Owner) { o.JobChanged(s.id) }},
		{"opt-outs change", func(o *owner.Owner) { o.OptOutsChanged() }},
	} {
		s.do(nil)
		looks := 0
		for i := range 4 {
			asked.asked = 0
			s.do(func(o *owner.Owner) {
				if i == 0 {
					row.do(o)
				}
			})
			if looks += asked.asked; asked.asked > 1024+300 {
				t.Errorf("%s: %d looks in a step", row.name, asked.asked)
			}
		}
		if looks < hosts-8 {
			t.Errorf("%s: %d looks at %d hosts", row.name, looks, hosts)
		}
	}
}

// TestWritesOfAStepAreBounded: however fast links come in, a step writes no more than takes some
// milliseconds.
func TestWritesOfAStepAreBounded(t *testing.T) {
	s := newScene(t, nil)
	s.check = false
	var d *owner.Delivery
	m, last, steps := links(s.id, 1, pages("a.example", wire.MaxLinks)...), int64(0), 0
	for through := false; !through; steps++ {
		s.do(func(o *owner.Owner) {
			o.Within(func() bool { return true })
			if d == nil {
				d = o.Delivery(m)
			}
			through = d.Go()
		})
		n := s.owner.Totals().URLsSeen
		if n-last > 1024+128 {
			t.Errorf("a step took in %d URLs, of two records each", n-last)
		}
		last = n
	}
	if last != wire.MaxLinks {
		t.Errorf("%d URLs, want %d", last, wire.MaxLinks)
	}
}

// TestGrantsOfAStepAreBounded asks for many URLs of many hosts in one message.
func TestGrantsOfAStepAreBounded(t *testing.T) {
	const hosts, urls = 30, 100
	s := newScene(t, nil)
	s.check = false
	m := &wire.Session{Incarnation: 1}
	for i := range hosts {
		host := fmt.Sprintf("h%d.example", i)
		m.Hosts = append(m.Hosts, &wire.HostWork{Host: host, Want: urls})
		s.post(1, pages(host, urls)...)
	}
	s.placed(s.do(nil), "w")
	var v *owner.Visit
	granted, steps := int64(0), 0
	for through := false; !through; steps++ {
		s.do(func(o *owner.Owner) {
			o.Within(func() bool { return true })
			if v == nil {
				v = o.Visit("w", m)
			}
			through = v.Go()
		})
		n := s.owner.Totals().URLsLeased
		if n-granted > 512+urls {
			t.Errorf("a step granted %d URLs", n-granted)
		}
		granted = n
	}
	if granted != hosts*urls || len(v.Reply().GetGrants()) != hosts || steps < 3 {
		t.Errorf("%d URLs of %d hosts granted in %d steps", granted, len(v.Reply().GetGrants()), steps)
	}
}

// TestPurgeOfManyHosts: URLs of many hosts that share a fate get it over many steps, as each host
// takes a search.
func TestPurgeOfManyHosts(t *testing.T) {
	const hosts = 500
	s := newScene(t, nil)
	s.check = false
	s.post(0, wide(0, hosts)...)
	s.jobs[s.id].state = job.StateCanceled
	left := int64(hosts)
	for i := 0; left > 0; i++ {
		s.do(func(o *owner.Owner) {
			if i == 0 {
				o.JobChanged(s.id)
			}
		})
		n := s.owner.Counts(s.id).Pending
		if left-n > 64 || i > 0 && left == n {
			t.Fatalf("%d hosts were purged in a step, %d are left", left-n, n)
		}
		left = n
	}
	if err := ownertest.Check(s.owner); err != nil {
		t.Error(err)
	}
}

// TestOutboxComesBackInPieces: links for others that wait on disk come into memory over many steps.
func TestOutboxComesBackInPieces(t *testing.T) {
	const links = 20_000
	s := newScene(t, nil)
	s.check = false
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	s.post(0, pages("a.example", 2)...)
	g := s.lease("w", "a.example", 2)
	for i, url := range granted(g) {
		for from := range links / 2 / wire.PieceLinks {
			s.tell("w", "a.example", g.GetEpoch(), s.got(url, link.OutcomeNone, wide(i*links+from*wire.PieceLinks, wire.PieceLinks)...))
		}
		s.tell("w", "a.example", g.GetEpoch(), s.got(url, link.OutcomeOK, wide(i*links+links/2-links/2%wire.PieceLinks, links/2%wire.PieceLinks)...))
	}
	s.open(s.now)
	found := 0
	for found < links {
		s.do(nil)
		n := len(s.owner.Outbox(links))
		if n == 0 || n > 2*4096 {
			t.Fatalf("a step brought %d links, %d before", n, found)
		}
		found += n
	}
	if n := s.owner.Totals().Outbox; found != links || n != links {
		t.Errorf("%d links in memory, %d in all, want %d", found, n, links)
	}
}

// TestListPassesOver: a page of the list of URLs that are done ends when it has passed over many
// that are not, and the pages together have all.
func TestListPassesOver(t *testing.T) {
	s := newScene(t, nil)
	s.check = false
	for from := 0; from < 3000; from += 1000 {
		s.post(0, wide(from, 1000)...)
	}
	s.post(0, pages("a.example", 40_000)...)
	g := s.lease("w", "a.example", 2)
	var list []*wire.Fetched
	for _, url := range granted(g) {
		list = append(list, s.got(url, link.OutcomeOK))
	}
	s.tell("w", "a.example", g.GetEpoch(), list...)
	var cursor owner.Cursor
	found, calls := 0, 0
	for calls == 0 || cursor != nil {
		before := s.store.Scans
		next, err := s.owner.URLs(cursor, 100, func(job.ID, *owner.Final) { found++ })
		if err != nil {
			t.Fatal(err)
		}
		if n := s.store.Scans - before; n > 1100 {
			t.Errorf("%d searches for one page", n)
		}
		if cursor, calls = next, calls+1; calls > 100 {
			t.Fatal("the list has no end")
		}
	}
	if found != len(list) || calls < 4 {
		t.Errorf("%d URLs of %d in %d pages", found, len(list), calls)
	}
}
