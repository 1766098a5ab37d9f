package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// newMono returns a monotonic clock that counts suspend. The kernel's CLOCK_BOOTTIME takes a system
// call, which is too expensive for each reading. So Go's clock, which stops during suspend, is
// read, and the difference to the kernel's is measured every askEvery and after forget.
func newMono() (mono func() time.Duration, forget func()) {
	var ahead, asked time.Duration
	known := false
	return func() time.Duration {
		now := since()
		if !known || now-asked >= askEvery {
			var ts unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err == nil {
				now = since()
				ahead, asked, known = time.Duration(ts.Nano())-now, now, true
			}
		}
		return now + ahead
	}, func() { known = false }
}
