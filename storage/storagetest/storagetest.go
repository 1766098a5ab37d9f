// Package storagetest provides stores for tests: in memory, with crashes, and with disk failures;
// and a test suite for keyspaces.
package storagetest

import (
	"testing"

	"github.com/apoidea/apoidea/storage"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// New returns a store in memory that is closed when the test ends.
func New(tb testing.TB) *storage.Store {
	tb.Helper()
	return open(tb, vfs.NewMem())
}

func open(tb testing.TB, fs vfs.FS) *storage.Store {
	tb.Helper()
	s, err := storage.Open("store", storage.Options{FS: fs})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil && s.Err() == nil {
			tb.Errorf("close: %v", err)
		}
	})
	return s
}

// Disk is an in-memory disk for successive stores, with crashes between them.
type Disk struct {
	fs *vfs.MemFS
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{fs: vfs.NewCrashableMem()} }

// Open opens the store on the disk; it is closed when the test ends.
func (d *Disk) Open(tb testing.TB) *storage.Store {
	tb.Helper()
	return open(tb, d.fs)
}

// Crash returns the disk as after a power loss: with exactly what was synced. An open store on d
// continues and does not touch the new disk.
func (d *Disk) Crash() *Disk {
	return &Disk{fs: d.fs.CrashClone(vfs.CrashCloneCfg{})}
}
