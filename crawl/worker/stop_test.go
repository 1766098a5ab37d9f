package worker

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/worker/reports"
)

// TestStopHasAnEnd: a stop waits for owners that are slow to acknowledge, but not for ever, and for
// less time where nobody takes over and a person waits.
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

// TestLeave: the URL of a page of which nothing is said waits again, in front of the others; of a
// host that is being given back it is given back.
func TestLeave(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w := newWorld(t, site(1), []string{"http://a.example/"}).worker
		h := leased(w, "a.example", time.Hour)
		ref := &reports.Job{}
		w.windows.push(h, []reports.Item{{Job: ref, URL: "http://a.example/2"}})
		w.piped, h.Piped = 2, 2
		finisher{w}.Leave(h.Lease, &reports.Item{Job: ref, URL: "http://a.example/1"})
		if it, ok := w.frontier.Peek("a.example"); !ok || it.URL != "http://a.example/1" || w.piped != 1 || h.Piped != 1 || h.Returned() != 0 {
			t.Errorf("next is %q; %d and %d pages, %d URLs given back", it.URL, w.piped, h.Piped, h.Returned())
		}
		w.close(h, 0, "")
		finisher{w}.Leave(h.Lease, &reports.Item{Job: ref, URL: "http://a.example/3"})
		if w.piped != 0 || h.Piped != 0 || h.Returned() != 3 || w.frontier.Len("a.example") != 0 {
			t.Errorf("%d and %d pages, %d URLs given back, %d wait", w.piped, h.Piped, h.Returned(), w.frontier.Len("a.example"))
		}
	})
}
