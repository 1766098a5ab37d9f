package worker

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
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
