package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/dhtsim"
)

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

// TestAlarm goes off at the earliest time that it is set to, once.
func TestAlarm(t *testing.T) {
	w := &crawl{population: newPopulation(&dhtsim.World{Seed: 1}, 1, time.Hour)}
	c := &crawlPeer{Node: w.Join(), world: w}
	var rang []time.Duration
	begin := w.Now()
	a := alarm{c: c, do: func() { rang = append(rang, w.Now().Sub(begin)) }}
	a.set(time.Time{})
	for _, at := range []time.Duration{3 * time.Second, 2 * time.Second, 4 * time.Second} {
		a.set(begin.Add(at))
	}
	w.Run(10 * time.Second)
	a.set(w.Now().Add(time.Second))
	w.Run(10 * time.Second)
	if want := []time.Duration{2 * time.Second, 11 * time.Second}; !slices.Equal(rang, want) {
		t.Errorf("went off after %v, want %v", rang, want)
	}
}
