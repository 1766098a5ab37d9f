package limits

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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
	// restGrowth is the growth of the heap since the last release that causes another. Requests of
	// other peers need memory too, and a collection takes tens of milliseconds.
	restGrowth = 16 << 20
)

// restLook is one observation of the peer.
type restLook struct {
	moved int64 // as in stall.Look
	busy  bool  // pages or outcomes are in progress
	held  int64 // heap bytes not returned to the system
}

// rest decides when an idle peer returns memory. The zero value is ready to use.
type rest struct {
	moved int64
	since time.Time // last progress, or last release of memory
	left  int64     // heap bytes held after the last release
}

// due records an observation and reports whether to release memory.
func (r *rest) due(now time.Time, l restLook) bool {
	if r.since.IsZero() || l.busy || l.moved != r.moved {
		r.moved, r.since = l.moved, now
		return false
	}
	return now.Sub(r.since) >= restAfter && l.held >= r.left+restGrowth
}

// done records a release and the heap bytes held now.
func (r *rest) done(now time.Time, held int64) { r.since, r.left = now, held }

// GiveBack returns free memory to the system whenever the worker is idle, until ctx ends. It
// requires that the peer is alone in its process.
func GiveBack(ctx context.Context, worker func() worker.Stats) error {
	tick := time.NewTicker(restEvery)
	defer tick.Stop()
	var r rest
	for {
		if r.due(time.Now(), lookAt(worker())) {
			freeMemory()
			r.done(time.Now(), heldMemory())
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func lookAt(w worker.Stats) restLook {
	return restLook{moved: movedBy(&w), busy: w.InFlight+w.Processing+w.Unreported > 0, held: heldMemory()}
}

// freeMemory returns unused memory to the system. A sync.Pool survives one collection, and the
// pools of a crawl hold megabytes of buffers and decoder windows.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heldMemory returns the heap bytes obtained from the system.
func heldMemory() (sum int64) {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			sum += int64(min(s.Value.Uint64(), 1<<60)) // bounded
		}
	}
	return sum
}
