//go:build unix

package machine

import (
	"syscall"
	"time"
)

// ProcessTime returns the CPU time used by this process; 0 if unknown.
func ProcessTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
