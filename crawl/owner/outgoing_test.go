package owner_test

import (
	"fmt"
	"testing"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// TestOutboxSpills: links beyond the memory's bound wait on disk, and those not acknowledged are
// sent again after a start.
func TestOutboxSpills(t *testing.T) {
	s := newScene(t, func(_ *wire.JobSpec, cfg *owner.Config) { cfg.MaxOutbox = 20 })
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	s.post(0, pages("a.example", 30)...)
	g := s.lease("w", "a.example", 30)
	for i, url := range granted(g) {
		var to []string
		for k := range 5 {
			to = append(to, fmt.Sprintf("http://b.example/%d-%d", i, k))
		}
		s.tell("w", "a.example", g.GetEpoch(), s.got(url, link.OutcomeOK, to...))
	}
	if n := s.owner.Counts(s.id).Outbox; n != 150 {
		t.Errorf("%d links in the outbox, want 150", n)
	}
	sent := make(map[string]int)
	send := func(most int) {
		for range 100 {
			var ids []uint64
			for _, k := range s.owner.Outbox(7) {
				if len(sent) < most {
					sent[k.URL]++
					ids = append(ids, k.ID)
				}
			}
			s.do(func(o *owner.Owner) { o.Sent(ids) })
		}
	}
	send(33)
	s.open(s.now)
	send(1000)
	if n := s.owner.Counts(s.id).Outbox; len(sent) != 150 || n != 0 {
		t.Errorf("%d links were sent, %d are left", len(sent), n)
	}
	again := 0
	for _, n := range sent {
		if n > 1 {
			again++
		}
	}
	if again > 5 {
		t.Errorf("%d links were sent twice, want those of one page at most", again)
	}
}

// TestKnownLinksAreNotSentTwice unless at a smaller depth.
func TestKnownLinksAreNotSentTwice(t *testing.T) {
	s := newScene(t, nil)
	s.ring = only{ring.HostKey("a.example")}
	s.open(s.now)
	s.post(2, "http://a.example/1", "http://a.example/2")
	s.post(1, "http://a.example/3")
	g := s.lease("w", "a.example", 3)
	for _, step := range []struct {
		url  string
		want int
	}{{"http://a.example/1", 1}, {"http://a.example/2", 0}, {"http://a.example/3", 1}} {
		s.tell("w", "a.example", g.GetEpoch(), s.got(step.url, link.OutcomeOK, "http://b.example/", "http://out.test/"))
		if list := s.owner.Outbox(10); len(list) != step.want {
			t.Errorf("%s: sends %+v", step.url, list)
		}
	}
}
