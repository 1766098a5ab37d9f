//go:build !unix

package datadir

import "io/fs"

const owners = false

func us() int { return -1 }

func ownerOf(fs.FileInfo) int { return -1 }

// Private does nothing: there is no mask of permissions here.
func Private() {}
