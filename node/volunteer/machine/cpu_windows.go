package machine

import (
	"time"

	"golang.org/x/sys/windows"
)

// ProcessTime is the processor time that this process has used; 0 if the system does not tell.
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
