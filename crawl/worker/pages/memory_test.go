package pages

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/worker/reports"
	"github.com/apoidea/apoidea/crawl/worker/session"
)

// TestMemory drives the account at random: it never gives more than its bound but to one, and
// whoever waits gets its turn once the others end.
func TestMemory(t *testing.T) {
	const bound = 1000
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		m := &memory{bound: bound}
		var shares []*share
		waits := make(map[*share]*waiter)
		waiting := func(s *share) bool {
			w := waits[s]
			if w == nil {
				return false
			}
			select {
			case <-w.ready:
				delete(waits, s)
				return false
			default:
				return true
			}
		}
		step := func() {
			if len(shares) < 20 && rnd.IntN(3) == 0 {
				shares = append(shares, new(share))
				return
			}
			if len(shares) == 0 {
				return
			}
			i := rnd.IntN(len(shares))
			s := shares[i]
			if waiting(s) {
				return
			}
			switch size := s.bytes + rnd.Int64N(300); {
			case s.kept || rnd.IntN(4) == 0:
				m.release(s)
				shares = append(shares[:i], shares[i+1:]...)
			case rnd.IntN(3) == 0:
				m.keep(s, s.bytes)
			case !m.grow(s, size):
				waits[s] = m.wait(s, size)
			}
		}
		for range 300 {
			step()
			over := int64(0)
			if m.over != nil {
				over = m.over.bytes
			}
			if m.growing-over > bound/2 || m.used()-over > bound || m.growing < 0 || m.kept < 0 {
				t.Fatalf("seed %d: %+v", seed, m)
			}
		}
		for range 100 { // who does not wait ends
			for i := 0; i < len(shares); {
				if s := shares[i]; waiting(s) {
					i++
				} else {
					m.release(s)
					shares = append(shares[:i], shares[i+1:]...)
				}
			}
		}
		if len(shares) > 0 || m.used() != 0 || m.over != nil || len(m.waiting) > 0 {
			t.Fatalf("seed %d: %d wait for ever, %+v", seed, len(shares), m)
		}
	}
}

// TestWaitEnds with its context.
func TestWaitEnds(t *testing.T) {
	l := newTest(t).pipe
	l.SetMemory(100)
	one, other := l.BodyMemory(), l.BodyMemory()
	if err := one.Wait(t.Context(), 1000); err != nil { // one may exceed
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := other.Wait(ctx, 1000); !errors.Is(err, context.Canceled) || len(l.memory.waiting) != 0 {
		t.Errorf("%v, %d wait", err, len(l.memory.waiting))
	}
	one.Release()
	if err := other.Wait(t.Context(), 1000); err != nil {
		t.Error(err)
	}
}

// TestLargeBodiesStayUnderBound receives more large bodies at once than memory has room for, some
// in several steps as without a Content-Length. Beside one body outside the bound they never exceed
// it, and all are reported.
func TestLargeBodiesStayUnderBound(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const fetchers, each, bound, large = 40, 5, 4 << 20, 3 << 20
		x := newTest(t, func(c *Config) { c.MaxMemory = bound })
		x.keep = true
		l := x.pipe
		ctx, cancel := context.WithCancel(t.Context())
		var serving, fetching sync.WaitGroup
		l.Run(ctx, &serving)
		most := int64(0)
		for range fetchers {
			fetching.Go(func() {
				for i := range each {
					size := int64(large >> (i % 3))
					steps := []int64{size}
					if i%2 == 0 {
						steps = []int64{size / 4, size / 2, size}
					}
					room := l.BodyMemory()
					for _, want := range steps {
						if !room.Grow(want) {
							if err := room.Wait(ctx, want); err != nil {
								t.Error(err)
							}
						}
						l.mu.Lock()
						most = max(most, l.memory.used())
						l.mu.Unlock()
						time.Sleep(time.Duration(1+want>>20) * time.Second)
					}
					l.Push(New(&session.Lease{Host: "a.example"}, &reports.Item{Job: &reports.Job{}, URL: "http://a.example/"}, &fetch.Response{Status: 200, Body: make([]byte, size-pageSize)}, room, 0, 0))
				}
			})
		}
		fetching.Wait()
		l.Drain(ctx)
		if len(x.told) != fetchers*each {
			t.Errorf("%d reports, want %d", len(x.told), fetchers*each)
		}
		if most > bound+large || most < bound/2 {
			t.Errorf("%d bytes in use, at most %d beside one body of %d", most, bound, large)
		}
		if l.memory.used() != 0 || l.memory.over != nil || l.working != 0 || l.large != 0 {
			t.Errorf("left behind: %+v, %d worked on, %d large", l.memory, l.working, l.large)
		}
		l.Close()
		cancel()
		serving.Wait()
	})
}

// TestLargePages: more pages than memory has room for, large and small, are all reported, and
// nothing is left behind.
func TestLargePages(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const fetchers, each = 6, 8
		x := newTest(t, func(c *Config) { c.MaxMemory = 1 << 20 })
		x.keep = true
		l := x.pipe
		ctx, cancel := context.WithCancel(t.Context())
		var serving, fetching sync.WaitGroup
		l.Run(ctx, &serving)
		for range fetchers {
			fetching.Go(func() {
				for i := range each {
					body := make([]byte, 900<<10>>(i%2*8))
					l.Push(New(&session.Lease{Host: "a.example"}, &reports.Item{Job: &reports.Job{}, URL: "http://a.example/"}, &fetch.Response{Status: 200, Body: body}, l.BodyMemory(), 0, 0))
				}
			})
		}
		fetching.Wait()
		l.Drain(ctx)
		if len(x.told) != fetchers*each {
			t.Errorf("%d reports, want %d", len(x.told), fetchers*each)
		}
		if l.memory.used() != 0 || l.memory.over != nil || l.working != 0 || l.large != 0 || l.Full() {
			t.Errorf("left behind: %+v, %d worked on, %d large", l.memory, l.working, l.large)
		}
		l.Close()
		cancel()
		serving.Wait()
	})
}

// TestLarge: what takes much memory when it is worked on is told before: it has many bytes, or is a
// sitemap that unpacks to many.
func TestLarge(t *testing.T) {
	gz := "\x1f\x8b and so on"
	for _, tt := range []struct {
		kind link.Kind
		body string
		want bool
	}{
		{link.KindPage, gz, false},
		{link.KindSitemap, gz, true},
		{link.KindSitemap, "<urlset>", false},
		{link.KindPage, strings.Repeat("x", largePage+1), true},
		{link.KindPage, "short", false},
	} {
		resp := &fetch.Response{Body: []byte(tt.body)}
		p := New(&session.Lease{Host: "a.example"}, &reports.Item{Kind: tt.kind}, resp, new(BodyMemory), 0, 0)
		if p.large() != tt.want {
			t.Errorf("kind %v, %.9q of %d bytes: large %v", tt.kind, tt.body, len(tt.body), p.large())
		}
	}
}
