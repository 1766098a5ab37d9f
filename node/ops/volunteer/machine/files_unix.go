//go:build unix

package machine

import "syscall"

// OpenFiles returns the limit on open files and connections of this process, which Go has raised to
// the hard limit; 0 if unknown.
func OpenFiles() uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil {
		return 0
	}
	return count(limit.Cur)
}

// count converts a limit, which is signed on FreeBSD.
func count[N int64 | uint64](n N) uint64 { return uint64(max(n, 0)) } // not negative
