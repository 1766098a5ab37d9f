package inspect

import (
	"fmt"
	"time"
)

// secondsSince returns the seconds since at, 0 if at is zero or in the future.
func secondsSince(at, now time.Time) float64 {
	if at.UnixMilli() <= 0 {
		return 0
	}
	return max(now.Sub(at).Seconds(), 0)
}

// due formats the time until at.
func due(at, now time.Time) string {
	if wait := at.Sub(now).Round(100 * time.Millisecond); wait > 0 {
		return fmt.Sprintf("due in %v", wait)
	}
	return "due now"
}
