package storage

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Errors that a caller decides by.
var (
	// ErrFailed says that an earlier write did not reach the disk and that the store takes no more.
	// It wraps the cause.
	ErrFailed = errors.New("storage failed")
	// ErrClosed says that the store was closed.
	ErrClosed = errors.New("storage closed")
	// ErrLocked says that another process has the directory.
	ErrLocked = errors.New("directory is in use by another process")
	// ErrDamaged says that the database's files are not what was written: Check says more.
	ErrDamaged = errors.New("the database is damaged")
)

// Options are the knobs of a Store. The zero value is what a peer wants: small, since sixteen peers
// may share a machine.
type Options struct {
	// CacheBytes bounds the cache of blocks read from disk. Zero means 8 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one table of recent writes; up to four wait for their turn to be
	// written out, and then writers wait too. Larger means fewer compactions. Zero means 8 MiB.
	MemTableBytes uint64
	// MaxOpenFiles bounds open files. Zero means DefaultOpenFiles.
	MaxOpenFiles int
	// Logger receives what the database does, at debug level, and what goes wrong. Nil discards it.
	Logger *slog.Logger
	// FS replaces the file system in tests. Nil means the disk.
	FS vfs.FS
	// ReadOnly opens what is there to be read and changes nothing; there must be a database. The
	// directory is held all the same, if it can be written, so that nobody else changes it meanwhile.
	ReadOnly bool
	// Lock is the directory's where it is held already. Nil: Open takes it.
	Lock *Lock
}

// Lock holds a directory for this process. Each Store that is open holds it too.
type Lock = pebble.Lock

// Acquire takes the lock of a database's directory, or fails with ErrLocked.
func Acquire(dir string) (*Lock, error) { return acquire(dir, vfs.Default) }

func acquire(dir string, fs vfs.FS) (*Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		reason := ErrLocked
		if lockUnwritable(err) {
			reason = errors.New("its lock cannot be written")
		}
		return nil, fmt.Errorf("open storage in %s: %w: %w", dir, reason, err)
	}
	return lock, nil
}

// lockUnwritable reports whether the file of a lock could not be opened. The system reports a lock
// of another process without a path.
func lockUnwritable(err error) bool {
	_, path := errors.AsType[*os.PathError](err)
	return path || errors.Is(err, syscall.EROFS)
}

// AcquireToRead takes the lock of a database's directory as Acquire does, if it can be written. A
// directory on a read-only medium, or one that this user may only read, needs none: no peer of this
// user runs there.
func AcquireToRead(dir string) (*Lock, error) { return acquireToRead(dir, vfs.Default) }

func acquireToRead(dir string, fs vfs.FS) (*Lock, error) {
	lock, err := acquire(dir, fs)
	if err == nil || !lockUnwritable(err) || !errors.Is(err, syscall.EROFS) && !errors.Is(err, os.ErrPermission) {
		return lock, err
	}
	return pebble.LockDirectory(dir, unlocked{fs})
}

// unlocked is a file system in which each lock is free.
type unlocked struct{ vfs.FS }

// Lock implements vfs.FS.
func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// What a database has where Options do not say otherwise.
const (
	// DefaultOpenFiles is how many files it has open at most.
	DefaultOpenFiles = 128
	// DefaultCacheBytes and DefaultMemTableBytes are its memory. Of tables of recent writes Pebble
	// keeps two for good once they were used, the present one and the one before.
	DefaultCacheBytes    = 8 << 20
	DefaultMemTableBytes = 8 << 20
)

func (o Options) withDefaults() Options {
	if o.CacheBytes == 0 {
		o.CacheBytes = DefaultCacheBytes
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = DefaultMemTableBytes
	}
	if o.MaxOpenFiles == 0 {
		o.MaxOpenFiles = DefaultOpenFiles
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

// Store is an open database. Create it with Open, end it with Close.
type Store struct {
	db      *pebble.DB
	failure *failure

	mu     sync.Mutex // guards closed, and that no operation enters once it is set
	closed bool
	// running are the operations that Close waits for, so that the database is not closed under a
	// reader. A count and not a lock, since the function given to Scan or Update may read.
	running sync.WaitGroup
}

// Open opens the database in dir and makes the directory if need be. The error names dir and tells
// apart a directory that cannot be written, one that another process has (ErrLocked), a damaged
// database, and one of another format (ErrOlder, ErrNewer).
func Open(dir string, o Options) (*Store, error) {
	o = o.withDefaults()
	if o.ReadOnly {
		if _, err := o.FS.Stat(dir); err != nil {
			return nil, fmt.Errorf("open storage: %w", err)
		}
	} else if err := writable(dir, o.FS); err != nil {
		return nil, err
	}
	lock, release := o.Lock, func() error { return nil }
	if lock == nil {
		take := acquire
		if o.ReadOnly {
			take = acquireToRead
		}
		var err error
		if lock, err = take(dir, o.FS); err != nil {
			return nil, err
		}
		release = lock.Close
	}
	f := newFailure(o.Logger)
	err := orphaned(dir, o.FS)
	var db *pebble.DB
	if err == nil {
		db, err = openPebble(dir, o, f, lock)
	}
	if err == nil {
		err = f.arm()
	}
	if err != nil {
		return nil, fmt.Errorf("open storage in %s: %w", dir, errors.Join(opening(err, f), release()))
	}
	// From here the database alone holds the lock and lets it go when it closes.
	if err := release(); err != nil {
		return nil, fmt.Errorf("open storage in %s: %w", dir, errors.Join(err, db.Close()))
	}
	s := &Store{db: db, failure: f}
	if err := s.settleFormat(o.ReadOnly); err != nil {
		return nil, fmt.Errorf("open storage in %s: %w", dir, errors.Join(err, s.Close()))
	}
	return s, nil
}

// openPebble turns a panic of Pebble, its answer to some failed writes, into an error.
func openPebble(dir string, o Options, f *failure, lock *pebble.Lock) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = fmt.Errorf("pebble gave up: %w", cause)
		}
	}()
	po := &pebble.Options{
		FS:                 &guardedFS{FS: o.FS, failure: f},
		Lock:               lock,
		ReadOnly:           o.ReadOnly,
		FormatMajorVersion: pebble.FormatNewest,
		// Pebble takes the memory of its tables of recent writes out of the cache. Without room for
		// the one in use and one being written out, every read would go to the disk.
		CacheSize:                   o.CacheBytes + 2*int64(o.MemTableBytes),
		MemTableSize:                o.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		// Counted in sublevels. Twice Pebble's default: a peer shares its cores with others, and a
		// burst of reports is better absorbed than stalled.
		L0StopWritesThreshold: 24,
		MaxOpenFiles:          o.MaxOpenFiles,
		Logger:                logger{log: o.Logger, failure: f},
		EventListener:         events(o.Logger, f),
	}
	// Many questions are about keys that are not there; 10 bits a key answer 99 in 100 of them
	// without a read. Pebble does not ask the filters of the last level, so none are made for it:
	// dedup keeps its own in front of what is large.
	for i := range len(po.Levels) - 1 {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// Nearly all records lie in the last level, and most of them are URLs, which compress well: zstd
	// and larger blocks take a fifth off what a URL weighs (apoidea experiment run frontier), and no
	// time of a crawl that could be measured.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionGood })
	po.Levels[len(po.Levels)-1].BlockSize = 16 << 10
	return pebble.Open(dir, po)
}

// orphaned refuses a directory with records of which nothing names the MANIFEST: it would be taken
// for a new one, and the records be removed.
func orphaned(dir string, fs vfs.FS) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	records := ""
	for _, name := range names {
		if strings.HasPrefix(name, "marker.manifest.") {
			return nil
		}
		if info, err := fs.Stat(fs.PathJoin(dir, name)); err == nil && info.Size() > 0 && (strings.HasSuffix(name, ".sst") || strings.HasSuffix(name, ".log")) {
			records = name
		}
	}
	if records == "" {
		return nil
	}
	return fmt.Errorf("%w: there are records (%s), and nothing names the current MANIFEST", ErrDamaged, records)
}

// opening says of an error of opening that it is damage, unless the system said it: then a file
// could not be read or written.
func opening(err error, f *failure) error {
	f.mu.Lock()
	failed := f.err != nil
	f.mu.Unlock()
	_, system := errors.AsType[*os.PathError](err)
	if failed || errors.Is(err, ErrDamaged) || system && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return &damagedError{text: plain(err), err: err}
}

// writable tells an unwritable directory by trying, since permission bits do not tell of read-only
// mounts and quotas.
func writable(dir string, fs vfs.FS) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("open storage: directory %s cannot be made: %w", dir, err)
	}
	name := fs.PathJoin(dir, ".writable")
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open storage: directory %s cannot be written: %w", dir, err)
	}
	_, werr := io.WriteString(file, "x")
	if err := errors.Join(werr, file.Close(), fs.Remove(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open storage: directory %s cannot be written: %w", dir, err)
	}
	return nil
}

// Close waits for running operations, writes out what is open and releases the directory. On a
// failed store it returns the failure at once and leaves the directory locked until the process
// ends: nothing can be written any more, and what was acknowledged is already on disk. A second
// Close returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	done := make(chan error, 1)
	go func() {
		s.running.Wait()
		done <- s.db.Close()
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("close storage: %w", err)
		}
		return nil
	case <-s.failure.done:
		return s.failure.Err()
	}
}

// Failed is closed when the store has met a write that failed. Err then says which.
func (s *Store) Failed() <-chan struct{} { return s.failure.done }

// Err returns nil while the store works, and otherwise an error that is ErrFailed and wraps the
// cause.
func (s *Store) Err() error { return s.failure.Err() }

// enter admits an operation, which ends with s.running.Done.
func (s *Store) enter() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	s.running.Add(1)
	return nil
}
