//go:build unix

package datadir

import (
	"io/fs"
	"syscall"
)

// owners reports that files have owners and permissions on this system.
const owners = true

func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// Private sets the umask so that files of this process, also those that libraries create, are
// private.
func Private() { syscall.Umask(0o077) }
