// Package clock is a virtual clock for simulations.
package clock

import (
	"container/heap"
	"time"
)

// Epoch is the start time of every simulation.
var Epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Clock is a virtual clock with its pending events. The zero Clock is at Epoch. It is not safe for
// concurrent use.
type Clock struct {
	// OnStep, if set, is called after each event; the observed state holds until the next.
	OnStep func()

	at    time.Duration // since Epoch
	last  uint64
	queue queue
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
	heap.Push(&c.queue, &event{at: c.at + max(delay, 0), seq: c.last, run: fn})
}

// Run advances the clock by d.
func (c *Clock) Run(d time.Duration) { c.RunUntil(d, func() bool { return false }) }

// RunUntil advances the clock until done, called after each event, returns true, or by at most d;
// it reports whether done returned true.
func (c *Clock) RunUntil(d time.Duration, done func() bool) bool {
	end := c.at + d
	for len(c.queue) > 0 && c.queue[0].at <= end {
		e := heap.Pop(&c.queue).(*event)
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

// queue is a heap of events by time and order of arrival.
type queue []*event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(e any)   { *q = append(*q, e.(*event)) }

func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return e
}
