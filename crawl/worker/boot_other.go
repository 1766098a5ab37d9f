//go:build !linux

package worker

import "time"

// monotonic reads Go's monotonic clock, which stops during suspend on some systems; the wall clock
// compensates.
func monotonic() time.Duration { return since() }
