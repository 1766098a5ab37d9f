//go:build !unix

package datadir

import "io/fs"

const owners = false

func ownerOf(fs.FileInfo) int { return -1 }

// Private does nothing: the system has no umask.
func Private() {}
