package limits

import (
	"context"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
)

// Go collects the heap of an idle process every two minutes and returns its pages to the system
// even later. An idle peer returns them at once.
const (
	// restAfter is the time without progress after which a peer is idle.
	restAfter = 15 * time.Second
	// restEvery is the interval of checks.
	restEvery = 5 * time.Second
)

// rest decides when an idle peer returns memory. The zero value is ready to use.
type rest struct {
	moved    int64     // as in stall.Look
	since    time.Time // last progress
	released bool      // since then
}

// due records an observation and reports whether to release memory: once until the next progress.
func (r *rest) due(now time.Time, w *worker.Stats) bool {
	moved := movedBy(w)
	if r.since.IsZero() || w.InFlight+w.Processing+w.Unreported > 0 || moved != r.moved {
		*r = rest{moved: moved, since: now}
		return false
	}
	due := !r.released && now.Sub(r.since) >= restAfter
	r.released = r.released || due
	return due
}

// GiveBack returns free memory to the system whenever the worker has become idle, until ctx ends.
// It requires that the peer is alone in its process.
func GiveBack(ctx context.Context, worker func() worker.Stats) error {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	var r rest
	for {
		if w := worker(); r.due(time.Now(), &w) {
			freeMemory()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// freeMemory returns unused memory to the system. A sync.Pool survives one collection, and the
// pools of a crawl hold megabytes of buffers and decoder windows.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}
