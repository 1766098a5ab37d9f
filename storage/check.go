package storage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// checkEvery is the number of records between two checks of the context.
const checkEvery = 1 << 12

// Check reads the whole database: every block against its checksum, and the order of keys in and
// between the levels. Corruption is an ErrDamaged. What no table and no log shows is not found, as
// a log that ends between two records.
func (s *Store) Check(ctx context.Context) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.running.Done()
	defer func() {
		if r := recover(); r != nil { // Pebble panics on some corrupt blocks
			err = &damagedError{text: plainText(fmt.Sprint(r)), err: ErrDamaged}
		}
	}()
	if err := s.db.CheckLevels(nil); err != nil {
		return &damagedError{text: plain(err), err: err}
	}
	if err := s.checkFilters(); err != nil {
		return fmt.Errorf("check storage: %w", damage(err))
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return fmt.Errorf("check storage: %w", damage(err))
	}
	for n, ok := 0, it.First(); ok && err == nil; n, ok = n+1, it.Next() {
		if _, err = it.ValueAndErr(); n%checkEvery == 0 && err == nil {
			err = ctx.Err()
		}
	}
	if err := errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("check storage: %w", damage(err))
	}
	return nil
}

// checkFilters reads the blocks of tables that no iterator reads: their properties, and their
// filters, by a lookup of an absent key.
func (s *Store) checkFilters() error {
	levels, err := s.db.SSTables(pebble.WithProperties())
	if err != nil {
		return err
	}
	for _, level := range levels {
		for i := range level {
			_, closer, err := s.db.Get(append(slices.Clone(level[i].Smallest.UserKey), 0))
			if err == nil {
				err = closer.Close()
			}
			if err != nil && !errors.Is(err, pebble.ErrNotFound) {
				return err
			}
		}
	}
	return nil
}

// damage makes of an error of the database one that names the damage, without the library's own
// marks in it.
func damage(err error) error {
	if err == nil || !pebble.IsCorruptionError(err) && !isMissing(err) {
		return err
	}
	return &damagedError{text: plain(err), err: err}
}

// isMissing reports whether the manifest names files that are not there.
func isMissing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || strings.Contains(err.Error(), "object size mismatch")
}

// damagedError is ErrDamaged.
type damagedError struct {
	text string
	err  error
}

func (e *damagedError) Error() string { return fmt.Sprintf("%v: %s", ErrDamaged, e.text) }

// Unwrap lets both be found.
func (e *damagedError) Unwrap() []error { return []error{ErrDamaged, e.err} }

// marks are what the library puts into texts for its own reports.
var marks = regexp.MustCompile(`<[a-z ]*carrier>:? ?|[‹›]`)

// plain is an error's text for people.
func plain(err error) string { return plainText(err.Error()) }

func plainText(text string) string {
	text = marks.ReplaceAllString(text, "")
	text = strings.ReplaceAll(text, "pebble/record: ", "")
	text = strings.ReplaceAll(text, "pebble/table: ", "")
	text = strings.ReplaceAll(text, "pebble: ", "")
	return strings.Join(strings.Fields(strings.ReplaceAll(text, "\n", "; ")), " ")
}

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
