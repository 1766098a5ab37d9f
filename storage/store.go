package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/apoidea/apoidea/storage/kv"
)

// Errors that callers may test for.
var (
	// ErrFailed reports that an earlier write failed; the store accepts no more. It wraps the cause.
	ErrFailed = errors.New("storage failed")
	// ErrClosed reports that the store was closed.
	ErrClosed = errors.New("storage closed")
	// ErrLocked reports that another process uses the directory.
	ErrLocked = errors.New("directory is in use by another process")
	// ErrDamaged reports corrupt database files: Check has the details.
	ErrDamaged = errors.New("the database is corrupt")
)

// Options configure a Store. The defaults are small, since sixteen peers may share a machine.
type Options struct {
	// CacheBytes is the size of the block cache. Zero means 8 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one memory table; writers wait while four are unflushed. Larger
	// means fewer compactions. Zero means 8 MiB.
	MemTableBytes uint64
	// MaxOpenFiles is the maximum number of open files. Zero means DefaultOpenFiles.
	MaxOpenFiles int
	// Logger receives the database's events at debug level, and its errors. Nil discards them.
	Logger *slog.Logger
	// FS replaces the file system in tests. Nil means the disk.
	FS vfs.FS
	// ReadOnly opens an existing database without changing it. The directory is still locked, if
	// writable, so that no other process changes it.
	ReadOnly bool
	// Lock is the directory's lock if already held. Nil: Open acquires it.
	Lock *Lock
}

// Lock locks a directory for this process. Each open Store holds it too.
type Lock = pebble.Lock

// Acquire takes the lock of a database's directory, or fails with ErrLocked.
func Acquire(dir string) (*Lock, error) { return acquire(dir, vfs.Default) }

func acquire(dir string, fs vfs.FS) (*Lock, error) {
	lock, err := pebble.LockDirectory(dir, fs)
	if err != nil {
		reason := ErrLocked
		if lockUnwritable(err) {
			reason = errors.New("lock file is not writable")
		}
		return nil, fmt.Errorf("open storage in %s: %w: %w", dir, reason, err)
	}
	return lock, nil
}

// lockUnwritable reports whether the lock file could not be opened. The system reports a lock of
// another process without a path.
func lockUnwritable(err error) bool {
	_, path := errors.AsType[*os.PathError](err)
	return path || errors.Is(err, syscall.EROFS)
}

// AcquireToRead acquires the lock of a database's directory if it is writable. A read-only medium
// or directory needs none: no peer of this user can run there.
func AcquireToRead(dir string) (*Lock, error) { return acquireToRead(dir, vfs.Default) }

func acquireToRead(dir string, fs vfs.FS) (*Lock, error) {
	lock, err := acquire(dir, fs)
	if err == nil || !lockUnwritable(err) || !errors.Is(err, syscall.EROFS) && !errors.Is(err, os.ErrPermission) {
		return lock, err
	}
	return pebble.LockDirectory(dir, unlocked{fs})
}

// unlocked is a file system without locking.
type unlocked struct{ vfs.FS }

// Lock implements vfs.FS.
func (unlocked) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Defaults of Options.
const (
	// DefaultOpenFiles is the default of MaxOpenFiles.
	DefaultOpenFiles = 128
	// DefaultCacheBytes and DefaultMemTableBytes are the default memory. Pebble keeps two memory
	// tables after first use, the current one and the one before.
	DefaultCacheBytes    = 8 << 20
	DefaultMemTableBytes = 8 << 20
)

func (o Options) withDefaults() Options {
	o.CacheBytes = cmp.Or(o.CacheBytes, DefaultCacheBytes)
	o.MemTableBytes = cmp.Or(o.MemTableBytes, DefaultMemTableBytes)
	o.MaxOpenFiles = cmp.Or(o.MaxOpenFiles, DefaultOpenFiles)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.FS == nil {
		o.FS = vfs.Default
	}
	return o
}

// Store is an open database. Open creates it, Close ends it.
type Store struct {
	db      *pebble.DB
	failure *failure

	mu     sync.Mutex // guards closed, and that no operation starts once it is set
	closed bool
	// running counts the operations that Close waits for. It is a count and not a lock, since the
	// function given to Scan or Update may read.
	running sync.WaitGroup
}

// Open opens the database in dir and creates the directory if necessary. The error names dir; it
// distinguishes an unwritable directory, one in use (ErrLocked), a corrupt database (ErrDamaged),
// and one of another format (ErrOlder, ErrNewer).
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
	f := &failure{log: o.Logger, done: make(chan struct{})}
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
	// From here on only the database holds the lock; Close releases it.
	if err := release(); err != nil {
		return nil, fmt.Errorf("open storage in %s: %w", dir, errors.Join(err, db.Close()))
	}
	s := &Store{db: db, failure: f}
	if err := s.settleFormat(o.ReadOnly); err != nil {
		return nil, fmt.Errorf("open storage in %s: %w", dir, errors.Join(err, s.Close()))
	}
	return s, nil
}

// openPebble converts a panic of Pebble, its reaction to some failed writes, into an error.
func openPebble(dir string, o Options, f *failure, lock *pebble.Lock) (db *pebble.DB, err error) {
	defer func() {
		if r := recover(); r != nil {
			cause, ok := r.(error)
			if !ok {
				cause = fmt.Errorf("%v", r)
			}
			err = fmt.Errorf("pebble panicked: %w", cause)
		}
	}()
	po := &pebble.Options{
		FS:                 &guardedFS{FS: o.FS, failure: f},
		Lock:               lock,
		ReadOnly:           o.ReadOnly,
		FormatMajorVersion: pebble.FormatNewest,
		// Pebble takes the memory of its memory tables out of the cache. Without this addition for the
		// current one and one being flushed, every read would go to the disk.
		CacheSize:                   o.CacheBytes + 2*int64(o.MemTableBytes),
		MemTableSize:                o.MemTableBytes,
		MemTableStopWritesThreshold: 4,
		// Counted in sublevels. Twice Pebble's default: a peer shares its cores, and it is better to
		// absorb a burst of reports than to stall it.
		L0StopWritesThreshold: 24,
		MaxOpenFiles:          o.MaxOpenFiles,
		Logger:                logger{log: o.Logger, failure: f},
		EventListener:         events(o.Logger, f),
	}
	// Many lookups are of absent keys; with 10 bits per key 99 of 100 need no read. Pebble does not
	// use filters of the last level, so none are made for it: dedup has its own filters for the large
	// keyspaces.
	for i := range len(po.Levels) - 1 {
		po.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	// Nearly all records are in the last level, and most of them are URLs, which compress well: zstd
	// and larger blocks reduce the size of a URL by a fifth (go run ./scripts/frontier), at no
	// measurable cost.
	po.ApplyCompressionSettings(func() pebble.DBCompressionSettings { return pebble.DBCompressionGood })
	po.Levels[len(po.Levels)-1].BlockSize = 16 << 10
	return pebble.Open(dir, po)
}

// orphaned rejects a directory with records but no MANIFEST: it would be taken for a new one, and
// the records be removed.
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
	return fmt.Errorf("%w: records found (%s), but no current MANIFEST", ErrDamaged, records)
}

// opening marks an error of opening as corruption, unless it is a system error: then a file could
// not be read or written.
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

// writable detects an unwritable directory by a test write, since permission bits do not cover
// read-only mounts and quotas.
func writable(dir string, fs vfs.FS) error {
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("open storage: cannot create directory %s: %w", dir, err)
	}
	name := fs.PathJoin(dir, ".writable")
	file, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("open storage: directory %s is not writable: %w", dir, err)
	}
	_, werr := io.WriteString(file, "x")
	if err := errors.Join(werr, file.Close(), fs.Remove(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("open storage: directory %s is not writable: %w", dir, err)
	}
	return nil
}

// Close waits for running operations, flushes and releases the directory. On a failed store it
// returns the failure at once and leaves the directory locked until the process ends: no write is
// possible, and all acknowledged data is on disk. A second Close returns nil.
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

// Failed is closed after a failed write. Err then returns it.
func (s *Store) Failed() <-chan struct{} { return s.failure.done }

// Err returns nil while the store works, and otherwise an ErrFailed that wraps the cause.
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

// Every key begins with one of these bytes; the owner of the keyspace defines the rest. Numbers in
// keys are big-endian, so that the order of keys is the order of numbers. A "ring position" is a
// prefix of the SHA-256 that places a host, a body or a job on the ring (dht/ring), so that all
// records of an arc are one range of keys, or two if the arc passes zero: a handoff scans a range.
//
//	prefix          owner           key after the prefix
//	KeyspaceContent dedup           ring position of the digest (32 bytes)
//	KeyspaceBodies  node/services/crawling   SHA-256 of a body in this peer's archive (32 bytes)
//	KeyspaceDomains crawl/domain    ring position of the registrable domain (16 bytes), then the layout of its store
//	KeyspaceFormat  storage         "format": how records are laid out, see [Format]
//	KeyspaceHosts   crawl/owner     a kind; of hosts 'h', ring position (16 bytes), then the layout of crawl/owner, keys.go
//	KeyspaceJobs    crawl/job       ring position of the job (16 bytes), its ID (16 bytes), then the layout of its registry
//	KeyspaceMeta    node            a name in ASCII: identity, remembered peers, incarnation, listen addresses, known jobs
//	KeyspaceCopies  storage/replica the source (16 bytes of the SHA-256 of its name), then its keys with their keyspaces' bytes, as ondisk.Copied has them
//	KeyspaceSubnets node/services/subnets    ring position of the subnet or organisation (16 bytes), a kind; of an index then the range of the entry
const (
	KeyspaceBodies  byte = 'a'
	KeyspaceContent byte = 'c'
	KeyspaceDomains byte = 'd'
	KeyspaceFormat  byte = 'f'
	KeyspaceHosts   byte = 'h'
	KeyspaceJobs    byte = 'j'
	KeyspaceMeta    byte = 'm'
	KeyspaceCopies  byte = 'r'
	KeyspaceSubnets byte = 's'
)

// Size returns the approximate bytes on disk of the keys in [lo, hi), by the tables: recent writes
// that are only in the log do not count. A nil lo is the keyspace's first key, a nil hi its end.
func (k *Keyspace) Size(lo, hi []byte) (uint64, error) {
	if err := k.store.enter(); err != nil {
		return 0, err
	}
	defer k.store.running.Done()
	n, err := k.store.db.EstimateDiskUsage(lower(k.prefix, lo), upper(k.prefix, hi))
	if err != nil {
		return 0, fmt.Errorf("size of storage: %w", damage(err))
	}
	return n, nil
}

// Compact compacts all records into the last level and drops overwritten and deleted ones, as the
// database does by itself in time.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.running.Done()
	if err := s.db.Compact(ctx, []byte{0}, []byte{0xff}, true); err != nil {
		return fmt.Errorf("compact storage: %w", damage(err))
	}
	return nil
}

// Format is the version of the data directory's format: of all records of a database, and of the
// files beside it. Any incompatible change raises it.
const Format = 2

var (
	// ErrOlder reports a database with an earlier format. None of them was released.
	ErrOlder = errors.New("made by a version before 0.1: start with a new --data-dir, or export with that version")
	// ErrNewer reports a database with a later format.
	ErrNewer = errors.New("made by a newer version: use that version")
)

// formatKey is the one key of KeyspaceFormat.
var formatKey = []byte("format")

// CheckFormat rejects a format other than [Format], with ErrOlder or ErrNewer.
func CheckFormat(format uint64) error {
	switch {
	case format < Format:
		return fmt.Errorf("format %d, expected %d: %w", format, Format, ErrOlder)
	case format > Format:
		return fmt.Errorf("format %d, expected %d: %w", format, Format, ErrNewer)
	}
	return nil
}

func checkStored(raw []byte) error {
	format, err := strconv.ParseUint(string(raw), 10, 32)
	if err != nil {
		return fmt.Errorf("%w: the format is %q", ErrDamaged, raw)
	}
	return CheckFormat(format)
}

// settleFormat checks the format, and stores it in a new database.
func (s *Store) settleFormat(readOnly bool) error {
	space := s.Keyspace(KeyspaceFormat)
	raw, ok, err := space.Get(formatKey)
	if err != nil {
		return err
	}
	if ok {
		return checkStored(raw)
	}
	it, err := s.db.NewIter(nil)
	if err != nil {
		return err
	}
	used := it.First()
	if err := it.Close(); err != nil {
		return err
	}
	switch {
	case used:
		return CheckFormat(0)
	case readOnly:
		return nil
	}
	wait, err := space.Update(func(b kv.Batch) { b.Set(formatKey, strconv.AppendUint(nil, Format, 10)) })
	if err != nil {
		return err
	}
	return wait()
}
