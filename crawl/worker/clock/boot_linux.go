package clock

import (
	"time"

	"golang.org/x/sys/unix"
)

// newMono is a monotonic clock that counts suspend. The kernel's own takes a system call, which is
// too dear to be asked each time; so Go's, which stands still during suspend, is read, and the
// kernel's is asked by how much the two differ: every askEvery, and when forget says that they may
// have parted.
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
