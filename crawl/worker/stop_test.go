package worker

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/fetch"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestStopHasAnEnd: a stop waits for owners that are slow to acknowledge, but not for ever, and for less time where nobody takes over and a person waits.
func TestStopHasAnEnd(t *testing.T) {
	for _, tt := range []struct {
		name  string
		alone bool
		want  time.Duration
	}{{"alone", true, time.Second}, {"of a ring", false, 6 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				x := newWorld(t, site(100_000), []string{"http://a.example/"}, func(x *world) {
					x.cfg.Alone = func() bool { return tt.alone }
				})
				var told time.Time
				if err := x.run(func() bool {
					stats := x.worker.Stats()
					x.mu.Lock()
					defer x.mu.Unlock()
					if o := x.owners["owner"]; o.reported > 0 {
						o.pause = time.Hour // from here on nothing is acknowledged
					}
					told = time.Now()
					return x.owners["owner"].pause > 0 && stats.Unreported > 0
				}); err != nil {
					t.Fatal(err)
				}
				if took := time.Since(told); took < tt.want/2 || took > tt.want+100*time.Millisecond {
					t.Errorf("the stop took %v, want %v", took, tt.want)
				}
			})
		})
	}
}

// TestHastyStop: at a stop large pages are left wherever they are, those that come later too, and their URLs are given back; short ones are worked on.
func TestHastyStop(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(1), []string{"http://a.example/"}, func(*world) {})
		w, l := x.worker, x.worker.pipe
		h := leased(w, "a.example", time.Hour)
		w.close(h, 0, "")
		pageOf := func(size int) *page {
			w.piped++
			h.Piped++
			return newPage(h, item{job: &jobRef{}, kind: link.KindPage}, &fetch.Response{Body: make([]byte, size)}, new(share))
		}
		answered := func(p *page) {
			l.mu.Lock()
			l.pages++
			l.working++
			l.mu.Unlock()
			l.answer([]*page{p})
		}
		l.push(pageOf(largePage + 1))
		l.push(pageOf(10))
		answered(pageOf(20))
		answered(pageOf(largePage + 1))
		l.push(pageOf(largePage + 1))
		hand, _, ok := l.next() // the short answered one
		if !ok || hand.resp.Size() != 20 {
			t.Fatalf("a page of %d bytes was begun", hand.resp.Size())
		}
		l.hasten()
		answered(pageOf(largePage + 1))
		l.push(pageOf(largePage + 1))
		if p, _, ok := l.next(); !ok || p.resp.Size() != 10 {
			t.Fatalf("a page of %d bytes was begun, want 10", p.resp.Size())
		}
		if h.Returned() != 5 || h.Piped != 2 || w.piped != 2 || l.pages != 2 || l.working != 2 || l.memory.used() > 100_000 {
			t.Errorf("%d URLs are given back; %d, %d, %d pages, %d worked on, %d bytes", h.Returned(), h.Piped, w.piped, l.pages, l.working, l.memory.used())
		}
		if big := pageOf(largePage + 1); !l.left(big) {
			t.Error("a large page in hand is worked on")
		}
		l.close()
		if p, _, ok := l.next(); ok {
			t.Errorf("a page of %d bytes was begun", p.resp.Size())
		}
	})
}
