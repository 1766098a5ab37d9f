package worker

import (
	"testing"
	"time"
)

// TestSystemClock is the lease clock against what the clocks of a machine do.
func TestSystemClock(t *testing.T) {
	const step = 100 * time.Millisecond
	for _, tt := range []struct {
		name       string
		mono, wall time.Duration // how far each goes beyond step, once
		want       time.Duration
	}{
		{"both run", 0, 0, 2 * step},
		{"suspend that the monotonic clock counts", time.Hour, time.Hour, 2*step + time.Hour},
		{"suspend that only the wall clock shows", 0, time.Hour, 2*step + time.Hour},
		{"wall clock set back", 0, -time.Hour, 2 * step},
		{"wall clock slews", 0, 3 * time.Millisecond, 2 * step},
	} {
		t.Run(tt.name, func(t *testing.T) {
			mono, wall := 5*time.Hour, 20*365*24*time.Hour
			c := newClock(func() time.Duration { return mono }, func() time.Duration { return wall })
			if now := c.Now(); now != 0 {
				t.Errorf("begins at %v", now)
			}
			mono, wall = mono+step+tt.mono, wall+step+tt.wall
			c.Now()
			mono, wall = mono+step, wall+step
			if now := c.Now(); now != tt.want {
				t.Errorf("%v went by, want %v", now, tt.want)
			}
		})
	}
}

// TestSetBackThenSuspended: a wall clock that was set back still shows a later sleep.
func TestSetBackThenSuspended(t *testing.T) {
	mono, wall := time.Hour, 1000*time.Hour
	c := newClock(func() time.Duration { return mono }, func() time.Duration { return wall })
	wall -= 10 * time.Hour
	c.Now()
	wall += time.Hour
	if now := c.Now(); now != time.Hour {
		t.Errorf("%v went by, want 1h", now)
	}
}

func BenchmarkNow(b *testing.B) {
	c := NewSystemClock()
	for b.Loop() {
		c.Now()
	}
}

// TestNow: the machine's clock runs and does not go back.
func TestNow(t *testing.T) {
	c := NewSystemClock()
	last := c.Now()
	for range 1000 {
		now := c.Now()
		if now < last {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
}
