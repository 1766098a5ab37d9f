package p2p

import (
	"testing"
	"time"
)

// TestRoundTripIsTheLeastOfLate: a slow first call does not stay, nor does a fast one for ever.
func TestRoundTripIsTheLeastOfLate(t *testing.T) {
	var r trips
	now := time.Unix(1, 0)
	for _, c := range []struct{ took, after, want time.Duration }{
		{450, 0, 450}, {3, time.Second, 3}, {90, time.Second, 3}, {80, tripAge, 80},
	} {
		now = now.Add(c.after)
		if r.record("a", c.took, now); r.of("a") != c.want {
			t.Errorf("after %d: %d, want %d", c.took, r.of("a"), c.want)
		}
	}
	if r.of("b") != 0 {
		t.Error("a peer that was never called has a round trip")
	}
}
