package view

import (
	"fmt"
	"time"
)

// secondsSince is how long ago a time was, 0 for one that was never set, or that a clock ahead of
// ours set.
func secondsSince(at, now time.Time) float64 {
	if at.UnixMilli() <= 0 {
		return 0
	}
	return max(now.Sub(at).Seconds(), 0)
}

// due says when something is to come.
func due(at, now time.Time) string {
	if wait := at.Sub(now).Round(100 * time.Millisecond); wait > 0 {
		return fmt.Sprintf("due in %v", wait)
	}
	return "due now"
}
