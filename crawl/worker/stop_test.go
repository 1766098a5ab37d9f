package worker

import (
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
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
					if x.worker.Stats().Unreported == 0 {
						return false
					}
					x.mu.Lock()
					defer x.mu.Unlock()
					x.owners["owner"].pause = time.Hour
					told = time.Now()
					return true
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
