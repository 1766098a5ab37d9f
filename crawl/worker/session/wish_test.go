package session

import (
	"testing"
	"time"
)

// TestWishOutlivesTheOwnersClock: what an owner, whose clock is cut to the millisecond, makes of a
// wish ends no earlier than the wish does.
func TestWishOutlivesTheOwnersClock(t *testing.T) {
	if got := OwnerMilliseconds(0); got != 0 {
		t.Errorf("no wish is told as %d ms", got)
	}
	for _, asked := range []time.Duration{1, time.Millisecond, 5 * time.Second, 24 * time.Hour, 24*time.Hour + 1} {
		for _, part := range []time.Duration{0, 1, time.Millisecond - 1} {
			told := time.UnixMilli(1e12).Add(part)
			until := time.UnixMilli(told.UnixMilli() + int64(OwnerMilliseconds(asked)))
			if early := told.Add(asked).Sub(until); early > 0 {
				t.Errorf("a wish for %v, %v into a millisecond, ends %v early", asked, part, early)
			}
		}
	}
}
