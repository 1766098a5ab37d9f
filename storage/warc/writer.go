package warc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultMaxSize is the size at which a file is rotated, in bytes, as archives have it by
	// custom.
	DefaultMaxSize = 1 << 30
	// flushSize is how much is gathered before it is handed to the system: few large appends
	// instead of many small.
	flushSize = 1 << 20
)

// ErrFailed says that an earlier write did not reach the disk and that the archive takes no more.
// It wraps the cause.
var ErrFailed = errors.New("archive failed")

// ErrClosed says that the writer was closed.
var ErrClosed = errors.New("archive closed")

// Config is what a Writer is told.
type Config struct {
	// Compression of the records. Empty means Gzip. Finished files of the other kinds stay as they
	// are.
	Compression Compression
	// MaxSize is the size after which a file is rotated, in bytes; the last exchange may exceed it.
	// Zero means DefaultMaxSize.
	MaxSize int64
	// Prefix begins the name of each file. Empty means "apoidea".
	Prefix string
	// Peer ends it: a short name of the peer, so that files of several peers can lie in one
	// directory.
	Peer string
	// Software, Operator and Hostname go into the warcinfo record where they are not empty: who
	// wrote this, with which version, and how to reach them.
	Software, Operator, Hostname string
	// Found, if not nil, is called by Open with each whole response in the files that a crash left
	// open, and where it lies there.
	Found func(e Entry, at Ref)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time

	create func(path string) (file, error) // replaced in tests
}

func (c Config) withDefaults() (Config, error) {
	if c.Compression == "" {
		c.Compression = Gzip
	}
	if c.MaxSize == 0 {
		c.MaxSize = DefaultMaxSize
	}
	if c.Prefix == "" {
		c.Prefix = "apoidea"
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.create == nil {
		c.create = createFile
	}
	switch {
	case !slices.Contains(Compressions(), string(c.Compression)):
		return c, fmt.Errorf("archive: Compression %q is none of %v", c.Compression, Compressions())
	case c.MaxSize < 0:
		return c, fmt.Errorf("archive: MaxSize %d is negative", c.MaxSize)
	case strings.ContainsAny(c.Prefix+c.Peer, `/\`) || hasControl(c.Prefix+c.Peer):
		return c, fmt.Errorf("archive: Prefix %q or Peer %q cannot be part of a file name", c.Prefix, c.Peer)
	}
	return c, nil
}

// Writer appends exchanges to the files of one directory. Create it with Open, end it with Close.
type Writer struct {
	dir    string
	config Config

	// syncing is held for the length of an fsync, so that the goroutines which wait behind it find
	// theirs already done. It is taken before mu.
	syncing sync.Mutex

	// finishing counts the full files that are being synced, indexed and named.
	finishing sync.WaitGroup

	// mu guards all below. It spans the write to the system of up to a megabyte, but no fsync.
	mu       sync.Mutex
	open     *openFile   // nil until something is appended
	full     []*openFile // those that are being finished
	serial   int
	appended uint64 // exchanges so far
	synced   uint64 // of these, how many are surely on disk
	failed   error
	closed   bool
}

// Open makes dir if need be and finishes what a crash left there: a half-written member is cut off,
// the index rebuilt. A file of this prefix and peer that is open must not belong to a living
// writer. No file is begun before the first exchange.
func Open(dir string, c Config) (*Writer, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open archive: %w", err)
	}
	w := &Writer{dir: dir, config: c}
	if err := w.recover(); err != nil {
		return nil, fmt.Errorf("open archive in %s: %w", dir, err)
	}
	return w, nil
}

// Append adds an exchange to the open file and says where it lies. It is not on disk before a Sync.
// Once a write has failed, this and every later call returns an error that is ErrFailed.
func (w *Writer) Append(m *Members) (Ref, error) {
	ref, full, err := w.add(m)
	if full != nil {
		err = errors.Join(err, w.finish(full))
	}
	if err != nil {
		return Ref{}, err
	}
	return ref, nil
}

// add adds an exchange to the open file, and returns the one before if it is to be finished.
func (w *Writer) add(m *Members) (ref Ref, full *openFile, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return ref, nil, err
	}
	if w.open != nil && w.open.size() > w.open.begin && w.open.size()+int64(len(m.data)) > w.config.MaxSize {
		if full, err = w.rotate(); err != nil {
			return ref, full, w.fail(err)
		}
	}
	if w.open == nil {
		if err := w.begin(); err != nil {
			return ref, full, w.fail(err)
		}
	}
	ref = Ref{File: w.open.name, Offset: w.open.size(), RecordID: m.RecordID}
	w.open.add(m)
	w.appended++
	if len(w.open.pending) >= flushSize {
		if err := w.open.flush(); err != nil {
			return ref, full, w.fail(err)
		}
	}
	return ref, full, nil
}

// rotate takes the open file away, with all that is pending written to it. It is for the caller to
// finish it without the mutex. The mutex is held.
func (w *Writer) rotate() (*openFile, error) {
	o := w.open
	w.open = nil
	w.full = append(w.full, o)
	w.finishing.Add(1)
	err := o.flush()
	o.damaged = err != nil
	return o, err
}

// finish finishes a file that was rotated.
func (w *Writer) finish(o *openFile) error {
	defer w.finishing.Done()
	err := o.finish()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full = slices.DeleteFunc(w.full, func(f *openFile) bool { return f == o }); err != nil {
		return w.fail(err)
	}
	return nil
}

// Sync returns nil when everything that was appended before the call is on disk. Calls at the same
// time share the work.
func (w *Writer) Sync() error {
	w.mu.Lock()
	target := w.appended
	w.mu.Unlock()

	w.syncing.Lock()
	defer w.syncing.Unlock()
	w.mu.Lock()
	if w.synced >= target {
		w.mu.Unlock()
		return nil
	}
	if err := w.usable(); err != nil {
		w.mu.Unlock()
		return err
	}
	// What is not synced lies in the open file, or in full ones before it.
	if err := w.open.flush(); err != nil {
		err = w.fail(err)
		w.mu.Unlock()
		return err
	}
	files, covered := append(slices.Clone(w.full), w.open), w.appended
	w.mu.Unlock()

	var err error
	for _, o := range files {
		err = errors.Join(err, o.sync())
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		return w.fail(err)
	}
	w.synced = covered
	return nil
}

// Close finishes the open file: synced, indexed, renamed. On a failed archive it does what still
// can be done and returns the failure. A second Close returns nil.
func (w *Writer) Close() error {
	w.syncing.Lock()
	defer w.syncing.Unlock()
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	var last *openFile
	if w.open != nil {
		var err error
		if last, err = w.rotate(); err != nil {
			_ = w.fail(err)
		}
	}
	w.mu.Unlock()
	if last != nil {
		_ = w.finish(last) // the first failure is told below
	}
	w.finishing.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.synced = w.appended
	}
	return w.failed
}

func (w *Writer) usable() error {
	if w.failed != nil {
		return w.failed
	}
	if w.closed {
		return ErrClosed
	}
	return nil
}

// fail remembers the first failure. What was pending is lost; it was never said to be on disk.
func (w *Writer) fail(err error) error {
	if w.failed == nil {
		w.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return w.failed
}
