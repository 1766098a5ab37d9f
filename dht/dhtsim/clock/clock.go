// Package clock is a virtual clock for simulations.
package clock

import "time"

// Epoch is the start time of every simulation.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock is a virtual clock with its pending events. The zero Clock is at Epoch. It is not safe for
// concurrent use.
type Clock struct {
	// OnStep, if set, is called after each event; the observed state holds until the next.
	OnStep func()

	at    time.Duration // since Epoch
	last  uint64
	queue []event // a binary heap
}

// event runs at its time; events at one time run in the order in which they were scheduled.
type event struct {
	at  time.Duration
	seq uint64
	run func()
}

// Now returns the virtual time.
func (c *Clock) Now() time.Time { return Epoch.Add(c.at) }

// Elapsed returns the virtual time since Epoch.
func (c *Clock) Elapsed() time.Duration { return c.at }

// After schedules fn after a delay; a negative delay is zero.
func (c *Clock) After(delay time.Duration, fn func()) {
	c.last++
	c.push(event{at: c.at + max(delay, 0), seq: c.last, run: fn})
}

// Run advances the clock by d.
func (c *Clock) Run(d time.Duration) { c.RunUntil(d, func() bool { return false }) }

// RunUntil advances the clock until done, called after each event, returns true, or by at most d;
// it reports whether done returned true.
func (c *Clock) RunUntil(d time.Duration, done func() bool) bool {
	end := c.at + d
	for len(c.queue) > 0 && c.queue[0].at <= end {
		e := c.pop()
		c.at = e.at
		e.run()
		if c.OnStep != nil {
			c.OnStep()
		}
		if done() {
			return true
		}
	}
	c.at = end
	return done()
}

func (e *event) before(other *event) bool {
	return e.at < other.at || e.at == other.at && e.seq < other.seq
}

func (c *Clock) push(e event) {
	c.queue = append(c.queue, e)
	q := c.queue
	for i := len(q) - 1; i > 0; {
		up := (i - 1) / 2
		if !q[i].before(&q[up]) {
			break
		}
		q[i], q[up] = q[up], q[i]
		i = up
	}
}

func (c *Clock) pop() event {
	q := c.queue
	first, last := q[0], len(q)-1
	q[0], q[last] = q[last], event{}
	q = q[:last]
	c.queue = q
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if q[child].before(&q[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		q[i], q[least] = q[least], q[i]
		i = least
	}
}
