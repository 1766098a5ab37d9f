// Package storagetest gives the tests of other packages a store in memory, one that can crash, and
// one whose disk fails, and the suite that every keyspace passes.
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

// Disk is a disk in memory on which one store lives after another, with crashes between them.
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

// Crash returns the disk as a power cut at this moment would leave it at worst: with exactly what
// was synced. A store that is open on d goes on and does not touch the new disk.
func (d *Disk) Crash() *Disk {
	return &Disk{fs: d.fs.CrashClone(vfs.CrashCloneCfg{})}
}
