package pages

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

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
	one, other := l.Room(), l.Room()
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

// smallDisk takes so many bytes in all.
type smallDisk struct {
	mu         sync.Mutex
	left, open int
}

func (d *smallDisk) Create() (fetch.Spilled, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open++
	return &onDisk{disk: d}, nil
}

// onDisk is a body on disk.
type onDisk struct {
	disk *smallDisk
	data []byte
}

func (f *onDisk) Write(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.disk.left < len(p) {
		return 0, errors.New("full")
	}
	f.disk.left -= len(p)
	f.data = append(f.data, p...)
	return len(p), nil
}
func (f *onDisk) Reader() io.Reader { return bytes.NewReader(f.data) }
func (f *onDisk) Size() int64       { return int64(len(f.data)) }
func (f *onDisk) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	f.disk.left += len(f.data)
	f.disk.open--
	return nil
}

// TestLargePages: more pages than memory has room for, large and small, are all reported, with and
// without room on disk, and nothing is left behind.
func TestLargePages(t *testing.T) {
	for _, room := range []int{1 << 30, 2 << 20, 1, 0} {
		crawltest.Bubble(t, func(t *testing.T) {
			const fetchers, each = 6, 8
			x := newTest(t, func(c *Config) { c.MaxMemory = 1 << 20 })
			x.keep = true
			l, disk := x.pipe, &smallDisk{left: room}
			if room > 0 {
				l.deps.Spill = disk
			}
			ctx, cancel := context.WithCancel(t.Context())
			var serving, fetching sync.WaitGroup
			l.Run(ctx, &serving)
			for range fetchers {
				fetching.Go(func() {
					for i := range each {
						body := make([]byte, 900<<10>>(i%2*8))
						l.Push(New(&session.Lease{Host: "a.example"}, &reports.Item{Job: &reports.Job{}, URL: "http://a.example/"}, &fetch.Response{Status: 200, Body: body}, l.Room(), 0, 0))
					}
				})
			}
			fetching.Wait()
			l.Drain(ctx)
			if len(x.told) != fetchers*each || x.left != 0 {
				t.Errorf("disk of %d bytes: %d reports, %d left", room, len(x.told), x.left)
			}
			if l.memory.used() != 0 || l.memory.over != nil || l.onDisk != 0 || l.working != 0 || l.large != 0 || disk.open != 0 || disk.left != room {
				t.Errorf("left behind: %+v, %d on disk, %d worked on, %d large, %d files", l.memory, l.onDisk, l.working, l.large, disk.open)
			}
			l.Close()
			cancel()
			serving.Wait()
		})
	}
}

// TestLarge: what takes much memory when it is worked on is told before: it has many bytes, or is a
// sitemap that unpacks to many.
func TestLarge(t *testing.T) {
	gz := "\x1f\x8b and so on"
	for _, tt := range []struct {
		kind link.Kind
		body string
		disk bool
		want bool
	}{
		{link.KindPage, gz, false, false},
		{link.KindSitemap, gz, false, true},
		{link.KindSitemap, "<urlset>", false, false},
		{link.KindSitemap, gz, true, true},
		{link.KindPage, strings.Repeat("x", largePage+1), false, true},
		{link.KindPage, strings.Repeat("x", largePage+1), true, true},
		{link.KindPage, "short", true, false},
	} {
		resp := &fetch.Response{Body: []byte(tt.body)}
		if tt.disk {
			resp = &fetch.Response{Spilled: &onDisk{disk: new(smallDisk), data: []byte(tt.body)}}
		}
		p := New(&session.Lease{Host: "a.example"}, &reports.Item{Kind: tt.kind}, resp, new(Room), 0, 0)
		if p.large() != tt.want {
			t.Errorf("kind %v, %.9q of %d bytes, on disk %v: large %v", tt.kind, tt.body, len(tt.body), tt.disk, p.large())
		}
	}
}
