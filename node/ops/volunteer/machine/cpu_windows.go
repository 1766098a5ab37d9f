package machine

import (
	"time"

	"golang.org/x/sys/windows"
)

// ProcessTime returns the CPU time used by this process; 0 if unknown.
func ProcessTime() time.Duration {
	var created, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &created, &ended, &kernel, &user) != nil {
		return 0
	}
	spent := func(t windows.Filetime) time.Duration {
		return time.Duration(uint64(t.HighDateTime)<<32|uint64(t.LowDateTime)) * 100 // units of 100 ns
	}
	return spent(kernel) + spent(user)
}
