package node

import (
	"time"

	"github.com/apoidea/apoidea/crawl/worker"
)

// leaseClock converts the worker's lease clock, which counts suspend and never goes back, to times
// that can be stored: they are near wall-clock time, and differ by the real time elapsed.
type leaseClock struct {
	base  time.Time
	clock *worker.SystemClock
}

func newLeaseClock() *leaseClock {
	return &leaseClock{base: time.Now().Round(0), clock: worker.NewSystemClock()}
}

// Now returns the current time of the lease clock.
func (c *leaseClock) Now() time.Time { return c.base.Add(c.clock.Now()) }
