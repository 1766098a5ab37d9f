package warc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// DefaultMaxSize is the size at which a file is rotated, in bytes, by convention of archives.
	DefaultMaxSize = 1 << 30
	// flushSize is the number of bytes collected for one write: few large appends instead of many
	// small ones.
	flushSize = 1 << 20
)

// ErrFailed reports that an earlier write failed; the archive accepts no more. It wraps the cause.
var ErrFailed = errors.New("archive failed")

// ErrClosed reports that the writer was closed.
var ErrClosed = errors.New("archive closed")

// Config configures a Writer.
type Config struct {
	// Compression of the records. Empty means Gzip. Finished files of other compressions stay
	// unchanged.
	Compression Compression
	// MaxSize is the size at which a file is rotated, in bytes; the last exchange may exceed it. Zero
	// means DefaultMaxSize.
	MaxSize int64
	// Prefix is the start of each file name. Empty means "apoidea".
	Prefix string
	// Peer is the end of each file name: a short ID of the peer, so that several peers can share a
	// directory.
	Peer string
	// Software, Operator, Hostname and UserAgent are fields of the warcinfo record, unless empty: the
	// program with its version, contact data, the machine, and the User-Agent of requests.
	Software, Operator, Hostname, UserAgent string
	// Found, if not nil, is called by Open with each complete response in the files that a crash left
	// open, and its location.
	Found func(e Entry, at Ref)
	// Now is the clock. Nil means time.Now.
	Now func() time.Time

	create func(path string) (file, error) // replaced in tests
}

func (c Config) withDefaults() (Config, error) {
	c.Compression = cmp.Or(c.Compression, Gzip)
	c.MaxSize = cmp.Or(c.MaxSize, DefaultMaxSize)
	c.Prefix = cmp.Or(c.Prefix, "apoidea")
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.create == nil {
		c.create = createFile
	}
	switch {
	case !slices.Contains(Compressions(), string(c.Compression)):
		return c, fmt.Errorf("archive: Compression %q is not one of %v", c.Compression, Compressions())
	case c.MaxSize < 0:
		return c, fmt.Errorf("archive: MaxSize %d is negative", c.MaxSize)
	case strings.ContainsAny(c.Prefix+c.Peer, `/\`) || hasControl(c.Prefix+c.Peer):
		return c, fmt.Errorf("archive: Prefix %q or Peer %q cannot be part of a file name", c.Prefix, c.Peer)
	}
	return c, nil
}

// Writer appends exchanges to the files of one directory. Open creates it, Close ends it.
type Writer struct {
	dir    string
	config Config

	// syncing is held during an fsync, so that goroutines waiting for it find theirs already done. It
	// is taken before mu.
	syncing sync.Mutex

	// finishing counts the full files being synced, indexed and renamed.
	finishing sync.WaitGroup

	// mu guards the fields below. It is held during a write of up to a megabyte, but during no fsync.
	mu       sync.Mutex
	open     *openFile   // nil until the first append
	full     []*openFile // files being finished
	serial   int
	appended uint64 // exchanges so far
	synced   uint64 // exchanges known to be on disk
	failed   error
	closed   bool
}

// Open creates dir if necessary and recovers files after a crash: it truncates an incomplete member
// and rebuilds the index. An open file of this prefix and peer must not belong to an active writer.
// The first exchange creates a file.
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

// Append adds an exchange to the open file and returns its location. It is on disk only after a
// Sync. After a failed write, this and every later call returns ErrFailed.
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

// add adds an exchange to the open file, and returns the previous file if it must be finished.
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

// rotate detaches the open file, with all pending exchanges written to it. The caller must finish
// it without the mutex. The mutex is held.
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

// Sync returns nil when everything appended before the call is on disk. Concurrent calls share the
// work.
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
	// Unsynced exchanges are in the open file, or in full ones before it.
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

// Close finishes the open file: synced, indexed, renamed. On a failed archive it completes what it
// can and returns the failure. A second Close returns nil.
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
		_ = w.finish(last) // the first failure is returned below
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

// fail records the first failure. Pending exchanges are lost; they were never acknowledged.
func (w *Writer) fail(err error) error {
	if w.failed == nil {
		w.failed = fmt.Errorf("%w: %w", ErrFailed, err)
	}
	return w.failed
}
