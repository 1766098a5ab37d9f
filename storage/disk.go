package storage

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ErrDiskReserve says that less is free on a disk than is kept in reserve. The peer then stops
// fetching, while there is still room to end cleanly.
var ErrDiskReserve = errors.New("disk reserve reached")

// DefaultReserve is the free space, in bytes, below which a peer takes no more: room for the pages
// in flight, the write-ahead log and a compaction.
const DefaultReserve = 256 << 20

// Free returns how many bytes this process may still write on the disk that holds dir.
func Free(dir string) (uint64, error) {
	usage, err := vfs.Default.GetDiskUsage(dir)
	if err != nil {
		return 0, fmt.Errorf("free space of %s: %w", dir, err)
	}
	return usage.AvailBytes, nil
}

// Guard watches the disk of a directory. The caller asks it now and then; a question is one system
// call.
type Guard struct {
	dir     string
	reserve uint64
	free    func(dir string) (uint64, error)
}

// NewGuard returns a guard of the disk that holds dir. A reserve of zero means DefaultReserve.
func NewGuard(dir string, reserve uint64) *Guard {
	if reserve == 0 {
		reserve = DefaultReserve
	}
	return &Guard{dir: dir, reserve: reserve, free: Free}
}

// Check returns nil while there is more than the reserve, an error that is ErrDiskReserve when
// there is not, and another one when the disk cannot be asked.
func (g *Guard) Check() error {
	free, err := g.free(g.dir)
	if err != nil {
		return err
	}
	if free < g.reserve {
		return fmt.Errorf("%w: %s has %d MiB free, %d MiB are kept", ErrDiskReserve, g.dir, free>>20, g.reserve>>20)
	}
	return nil
}
