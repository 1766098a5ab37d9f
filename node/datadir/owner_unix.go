//go:build unix

package datadir

import (
	"io/fs"
	"os"
	"syscall"
)

// owners says that the system tells whose a file is.
const owners = true

// us is the user that this process acts as.
func us() int { return os.Geteuid() }

func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// Private has every file that this process makes from now on be its user's alone, also those that
// libraries make.
func Private() { syscall.Umask(0o077) }
