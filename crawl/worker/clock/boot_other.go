//go:build !linux

package clock

import "time"

// newMono returns Go's monotonic clock, which stops during suspend on some systems; the wall clock
// compensates.
func newMono() (mono func() time.Duration, forget func()) { return since, func() {} }
