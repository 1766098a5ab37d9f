package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDiskReserve reports that the free disk space is below the reserve. The peer then stops
// fetching, with space left for a clean shutdown.
var ErrDiskReserve = errors.New("disk reserve reached")

// DefaultReserve is the free space, in bytes, below which a peer stops fetching: enough for the
// pages in flight, the write-ahead log and a compaction.
const DefaultReserve = 256 << 20

// Free returns the number of bytes that this process may still write on the disk of dir.
func Free(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return usage.AvailBytes, nil
}

// Guard checks the free disk space of a directory. A check is one system call.
type Guard struct {
	dir     string
	reserve uint64
	free    func(dir string) (uint64, error)
}

// NewGuard returns a Guard for the disk of dir. A reserve of zero means DefaultReserve.
func NewGuard(dir string, reserve uint64) *Guard {
	if reserve == 0 {
		reserve = DefaultReserve
	}
	return &Guard{dir: dir, reserve: reserve, free: Free}
}

// Check returns nil while more than the reserve is free, an ErrDiskReserve if not, and another
// error if the disk cannot be queried.
func (g *Guard) Check() error {
	free, err := g.free(g.dir)
	if err != nil {
		return err
	}
	if free < g.reserve {
		return fmt.Errorf("%w: %s has %d MiB free, reserve is %d MiB", ErrDiskReserve, g.dir, free>>20, g.reserve>>20)
	}
	return nil
}
