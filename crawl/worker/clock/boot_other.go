//go:build !linux

package clock

import "time"

// newMono is Go's monotonic clock, which on some systems stands still during suspend; the wall
// clock makes up for it.
func newMono() (mono func() time.Duration, forget func()) { return since, func() {} }
