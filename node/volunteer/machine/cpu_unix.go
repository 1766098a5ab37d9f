//go:build unix

package machine

import (
	"syscall"
	"time"
)

// ProcessTime is the processor time that this process has used; 0 if the system does not tell.
func ProcessTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
