package sim

import "time"

// alarm runs a function at the earliest of the times that it is set to.
type alarm struct {
	c  *crawlPeer
	do func()
	at time.Time // zero: not set
}

// set schedules it for a time, unless it is set to an earlier one; the zero time changes nothing.
func (a *alarm) set(at time.Time) {
	if at.IsZero() || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	a.c.Host.After(at.Sub(a.c.world.Now()), func() {
		if a.at.Equal(at) {
			a.at = time.Time{}
			a.do()
		}
	})
}
