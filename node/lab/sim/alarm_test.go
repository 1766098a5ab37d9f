package sim

import (
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/dhtsim"
)

// TestAlarm goes off at the earliest time that it is set to, once.
func TestAlarm(t *testing.T) {
	w := &crawl{population: newPopulation(&dhtsim.World{Seed: 1}, 1, time.Hour, 0)}
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
