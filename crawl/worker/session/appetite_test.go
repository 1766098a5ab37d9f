package session

import (
	"testing"
	"time"
)

// hunger is a host with that pace, and whether windows are full.
type hunger struct {
	pace time.Duration
	full bool
}

func (h hunger) Full() bool                { return h.full }
func (h hunger) Pace(*Lease) time.Duration { return h.pace }

// TestAppetite: a host asks for what is fetched within the horizon, and for more when half of that
// is left; while windows are full for one when it has none.
func TestAppetite(t *testing.T) {
	for _, tt := range []struct {
		pace           time.Duration
		full           bool
		left, low, ask int
	}{
		{0, false, 0, 128, 256},
		{time.Millisecond, false, 0, 128, 256}, // more than the window
		{100 * time.Millisecond, false, 10, 20, 30},
		{time.Minute, false, 0, 4, 8}, // at least a few
		{time.Minute, true, 0, 0, 1},
	} {
		a := appetite{window: 256, horizon: 4 * time.Second, of: hunger{tt.pace, tt.full}}
		if low, ask := a.low(nil), a.ask(nil, tt.left); low != tt.low || ask != tt.ask {
			t.Errorf("a pace of %v, full %v: asks for %d when %d are left, want %d when %d are", tt.pace, tt.full, ask, low, tt.ask, tt.low)
		}
	}
}
