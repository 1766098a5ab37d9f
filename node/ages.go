package node

import (
	"fmt"
	"time"
)

// lastDay is the end of the calendar that JSON and people know, in Unix milliseconds: the year 9999.
const lastDay = 253_402_300_799_999

// calendar is a time that some peer's clock, or a stranger, put into a record; the zero time for none, and for one that no calendar has, which JSON could not hold.
func calendar(ms int64) time.Time {
	if ms <= 0 || ms > lastDay {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// secondsSince is how long ago a time was, 0 for one that was never set, or that a clock ahead of ours set.
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
