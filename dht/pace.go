package dht

import (
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

// pace is when the next round of stabilize is: soon after a change, ever later while nothing
// changes.
type pace struct {
	*step
	interval time.Duration
	next     time.Time   // of the rounds
	nearest  [2]ring.Key // predecessor and successor
	steady   int         // rounds begun since they changed
}

// begin is for the first input.
func (p *pace) begin(now time.Time) { p.interval, p.next = p.cfg.Interval, now }

// round counts one more.
func (p *pace) round() {
	if p.steady++; p.steady > 1 {
		p.interval = min(2*p.interval, p.cfg.MaxInterval)
	}
}

// rest waits for the next round.
func (p *pace) rest(now time.Time) { p.next = now.Add(p.jitter(p.interval)) }

// hurry lets the rounds to come follow each other quickly.
func (p *pace) hurry() { p.steady, p.interval = 0, p.cfg.Interval }

// restart counts anew, from a round that is due now.
func (p *pace) restart(now time.Time) { p.steady, p.next = 0, now }

// changed tells of another leaf set, with these two nearest.
func (p *pace) changed(now time.Time, nearest [2]ring.Key) {
	if p.nearest != nearest {
		p.nearest, p.steady = nearest, 0
	}
	p.interval = p.cfg.Interval
	if soon := now.Add(p.jitter(p.interval)); soon.Before(p.next) {
		p.next = soon
	}
}
