package limits

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
)

// Go collects the heap of a process that allocates nothing every two minutes, and gives its pages
// back later still. A peer of a volunteer that has nothing to fetch any more gives them back at
// once.
const (
	// restAfter is for how long nothing may have moved in a peer at rest.
	restAfter = 15 * time.Second
	// restEvery is how often it is looked at.
	restEvery = 5 * time.Second
	// restGrowth is how much more memory a peer at rest must hold than after the last time before
	// it gives back again. Questions of others and its own hosts take some too, and collecting
	// costs some ten milliseconds.
	restGrowth = 16 << 20
)

// restLook is what is seen of a peer at one moment.
type restLook struct {
	moved int64 // as stall.Look has it
	busy  bool  // pages or outcomes are in hand
	held  int64 // bytes of the heap that the system does not have back
}

// rest tells when a peer that is at rest is to give memory back. The zero value has seen nothing.
type rest struct {
	moved int64
	since time.Time // when something moved last, or memory was given back
	left  int64     // bytes that were held after that
}

// due takes a look in.
func (r *rest) due(now time.Time, l restLook) bool {
	if r.since.IsZero() || l.busy || l.moved != r.moved {
		r.moved, r.since = l.moved, now
		return false
	}
	return now.Sub(r.since) >= restAfter && l.held >= r.left+restGrowth
}

// done notes that memory was given back, and what is held now.
func (r *rest) done(now time.Time, held int64) { r.since, r.left = now, held }

// GiveBack returns the memory of a crawl to the system whenever the peer, whose worker it is, comes
// to rest, until ctx ends. It is for a peer that has the process to itself.
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

// freeMemory gives back to the system what nobody uses. What lies in a sync.Pool outlives one
// collection, and the pools of a crawl hold buffers and windows of decoders of megabytes.
func freeMemory() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heldMemory is what the heap has of the system.
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
