package node

import (
	"time"

	"github.com/apoidea/apoidea/crawl/worker/clock"
)

// leaseClock turns the worker's lease clock, which counts suspend and never goes back, into times
// that can be stored: they are near the wall clock's, and differ between two readings by what has
// really gone by.
type leaseClock struct {
	base  time.Time
	clock *clock.System
}

func newLeaseClock() *leaseClock {
	return &leaseClock{base: time.Now().Round(0), clock: clock.New()}
}

// Now is the present time of the lease clock.
func (c *leaseClock) Now() time.Time { return c.base.Add(c.clock.Now()) }
