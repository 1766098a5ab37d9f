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
	}{{"alone", true, 1500 * time.Millisecond}, {"of a ring", false, 6 * time.Second}} {
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

// TestHastyStop: where a person waits for the end no large page is begun any more, however long it has waited, at either step; what is short is.
func TestHastyStop(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, site(1), []string{"http://a.example/"}, func(*world) {})
		l := x.worker.pipe
		pageOf := func(size int) *page {
			return newPage(newHost("owner", "a.example"), item{kind: link.KindPage}, &fetch.Response{Body: make([]byte, size)}, new(share))
		}
		l.push(pageOf(largePage + 1))
		l.push(pageOf(10))
		l.answer([]*page{pageOf(largePage + 1), pageOf(20)})
		l.hasten()
		for _, want := range []int64{20, 10} {
			if p, _, ok := l.next(); !ok || p.resp.Size() != want {
				t.Fatalf("a page of %d bytes was begun, want %d", p.resp.Size(), want)
			}
		}
		l.close()
		if p, _, ok := l.next(); ok {
			t.Errorf("a page of %d bytes was begun", p.resp.Size())
		}
	})
}
