package dht

import (
	"time"

	"github.com/apoidea/apoidea/dht/ring"
)

// pace schedules the stabilize rounds: soon after a change, ever later while nothing changes.
type pace struct {
	*step
	interval time.Duration
	next     time.Time   // of the rounds
	nearest  [2]ring.Key // predecessor and successor
	steady   int         // rounds begun since they changed
}

// begin handles the first input.
func (p *pace) begin(now time.Time) { p.interval, p.next = p.cfg.Interval, now }

// round counts a round.
func (p *pace) round() {
	if p.steady++; p.steady > 1 {
		p.interval = min(2*p.interval, p.cfg.MaxInterval)
	}
}

// rest schedules the next round.
func (p *pace) rest(now time.Time) { p.next = now.Add(p.jitter(p.interval)) }

// hurry shortens the interval of the next rounds.
func (p *pace) hurry() { p.steady, p.interval = 0, p.cfg.Interval }

// restart resets the count; a round is due now.
func (p *pace) restart(now time.Time) { p.steady, p.next = 0, now }

// changed handles a change of the leaf set, with its two nearest peers.
func (p *pace) changed(now time.Time, nearest [2]ring.Key) {
	if p.nearest != nearest {
		p.nearest, p.steady = nearest, 0
	}
	p.interval = p.cfg.Interval
	if soon := now.Add(p.jitter(p.interval)); soon.Before(p.next) {
		p.next = soon
	}
}
