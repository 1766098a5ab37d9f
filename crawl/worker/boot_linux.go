package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic reads a monotonic clock that counts suspend.
func monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return since() // before Linux 2.6.39
	}
	return time.Duration(ts.Nano())
}
