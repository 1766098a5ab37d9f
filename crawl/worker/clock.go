package worker

import "time"

var processStart = time.Now()

// since is Go's monotonic clock, which on some systems stands still during suspend; the wall clock makes up for it.
func since() time.Duration { return time.Since(processStart) }
