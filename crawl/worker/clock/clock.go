// Package clock is the lease clock of a real machine: leases must not outlive a sleep that the
// ordinary monotonic clock does not see.
package clock

import (
	"sync"
	"time"
)

const (
	// clockStep is by how much the wall clock must run ahead to count as time that went by unseen;
	// less is what two readings and a slewing clock differ by.
	clockStep = 50 * time.Millisecond
	// readSpread is how far apart the readings around that of the wall clock may be; beyond, the
	// process was held up in between.
	readSpread = time.Millisecond
	// askEvery is how long the kernel is believed to be as far ahead of Go's clock as it was.
	askEvery = 10 * time.Millisecond
)

// System is a monotonic clock that counts suspend where the system has one, plus whatever the wall
// clock jumps ahead of it. It never goes back. Safe for concurrent use.
type System struct {
	mu sync.Mutex // guards all

	mono   func() time.Duration
	forget func() // has mono look anew whether the machine slept
	wall   func() time.Duration

	start time.Duration // of mono
	ahead time.Duration // wall minus mono, as last believed
	extra time.Duration // what the wall clock jumped ahead, in all
	last  time.Duration
}

// New returns a clock at zero.
func New() *System {
	mono, forget := newMono()
	return newClock(mono, forget, func() time.Duration { return time.Duration(time.Now().UnixNano()) })
}

func newClock(mono func() time.Duration, forget func(), wall func() time.Duration) *System {
	c := &System{mono: mono, forget: forget, wall: wall}
	m, w := c.read()
	c.start, c.ahead = m, w-m
	return c
}

// read reads both clocks at about the same time.
func (c *System) read() (mono, wall time.Duration) {
	for range 3 {
		mono = c.mono()
		wall = c.wall()
		if c.mono()-mono < readSpread {
			break
		}
	}
	return mono, wall
}

// Now is how much time has gone by since New, suspend included.
func (c *System) Now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	mono, wall := c.read()
	if d := wall - mono - c.ahead; d > clockStep || d < -clockStep {
		c.forget()
		mono, wall = c.read()
	}
	switch d := wall - mono - c.ahead; {
	case d > clockStep:
		c.extra += d
		c.ahead += d
	case d < -clockStep:
		c.ahead += d // set back: nothing went by
	}
	c.last = max(c.last, mono-c.start+c.extra)
	return c.last
}

var processStart = time.Now()

// since is Go's monotonic clock.
func since() time.Duration { return time.Since(processStart) }
