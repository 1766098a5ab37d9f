//go:build unix

package machine

import "syscall"

// OpenFiles is how many files and connections this process may have open; 0 if the system does not
// tell. Go has raised it to the hard limit.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return count(limit.Cur)
}

// count takes a limit as systems have it: signed on FreeBSD.
func count[N int64 | uint64](n N) uint64 { return uint64(max(n, 0)) } // not negative
