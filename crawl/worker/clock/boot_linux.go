package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime is a monotonic clock that counts suspend.
func bootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return since()
	}
	return time.Duration(ts.Nano())
}
