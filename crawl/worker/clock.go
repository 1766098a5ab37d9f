package worker

import (
	"sync"
	"time"
)

const (
	// clockStep is by how much the wall clock must run ahead to count as unseen elapsed time; smaller
	// differences come from reading two clocks, and from slewing.
	clockStep = 50 * time.Millisecond
	// readSpread bounds the time between the readings around that of the wall clock; above it the
	// process was interrupted between them.
	readSpread = time.Millisecond
)

// SystemClock is the lease clock of a real machine: monotonic time with suspend where the system
// reports it, plus what the wall clock jumps ahead. It never goes back. Safe for concurrent use.
type SystemClock struct {
	mu sync.Mutex // guards all

	mono, wall func() time.Duration

	start time.Duration // of mono
	ahead time.Duration // wall minus mono, as last measured
	extra time.Duration // total of the wall clock's jumps ahead
	last  time.Duration
}

// NewSystemClock returns a clock at zero.
func NewSystemClock() *SystemClock {
	return newClock(monotonic, func() time.Duration { return time.Duration(time.Now().UnixNano()) })
}

func newClock(mono, wall func() time.Duration) *SystemClock {
	c := &SystemClock{mono: mono, wall: wall}
	m, w := c.read()
	c.start, c.ahead = m, w-m
	return c
}

// read reads both clocks at about the same time.
func (c *SystemClock) read() (mono, wall time.Duration) {
	for range 3 {
		mono = c.mono()
		wall = c.wall()
		if c.mono()-mono < readSpread {
			break
		}
	}
	return mono, wall
}

// Now returns the time elapsed since NewSystemClock, suspend included.
func (c *SystemClock) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall := c.read()
	switch d := wall - mono - c.ahead; {
	case d > clockStep:
		c.extra += d
		c.ahead += d
	case d < -clockStep:
		c.ahead += d // set back: no time elapsed
	}
	c.last = max(c.last, mono-c.start+c.extra)
	return c.last
}

var processStart = time.Now()

// since is Go's monotonic clock.
func since() time.Duration { return time.Since(processStart) }
