// Package spill keeps on disk what memory has no room for: one file for each body, in a directory
// of its own, bounded in all. It is the disk behind the Processing-Jobs of Apoidea (section 3),
// where downloaded pages wait to be processed and all beyond a number do not wait in memory.
//
// Nothing of it survives the process: what waits here was not reported, and will be fetched again.
// What a process that was killed left behind is removed at the next start. The bytes of a file are
// checked when they are read back, so that a disk that fails costs a fetch and never damages an
// archive.
package spill

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// Errors that a caller decides by.
var (
	// ErrFull says that the bound on all files is reached.
	ErrFull = errors.New("spill is full")
	// ErrClosed says that the directory was closed.
	ErrClosed = errors.New("spill closed")
	// ErrCorrupt says that what was read back is not what was written.
	ErrCorrupt = errors.New("spill file is damaged")
)

const (
	// prefix begins the names of all files here; nothing else in the directory is touched.
	prefix = "spill-"
	// askEvery is how many bytes are written to a file between two questions whether the disk has
	// room.
	askEvery = 4 << 20
)

// Config is what a Dir is told.
type Config struct {
	// Path of the directory. It is made when it is not there.
	Path string
	// MaxBytes bounds all files together.
	MaxBytes int64
	// Room, if not nil, is asked before a file is made, and again after each 4 MiB that go into
	// one. Its error refuses them.
	Room func() error
}

// Dir is the directory. Its methods, and those of different files, may be called by many
// goroutines.
type Dir struct {
	config Config

	mu     sync.Mutex
	bytes  int64
	files  map[*File]struct{}
	closed bool
}

// Open makes the directory, and removes what an earlier process left in it. The Dir is for use even
// when there is an error: what could not be made is tried again when a file is needed.
func Open(config Config) (*Dir, error) {
	d := &Dir{config: config, files: make(map[*File]struct{})}
	if err := os.MkdirAll(config.Path, 0o700); err != nil {
		return d, fmt.Errorf("spill to disk: %w", err)
	}
	entries, err := os.ReadDir(config.Path)
	errs := []error{err}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			errs = append(errs, os.Remove(filepath.Join(config.Path, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return d, fmt.Errorf("clean up the spill of an earlier run: %w", err)
	}
	return d, nil
}

// Create makes an empty file. It must be closed.
func (d *Dir) Create() (*File, error) {
	if err := d.ask(); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(d.config.Path, prefix+"*")
	if errors.Is(err, fs.ErrNotExist) { // somebody removed the directory
		if err = os.MkdirAll(d.config.Path, 0o700); err == nil {
			f, err = os.CreateTemp(d.config.Path, prefix+"*")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("spill to disk: %w", err)
	}
	file := &File{dir: d, file: f}
	d.mu.Lock()
	closed := d.closed
	if !closed {
		d.files[file] = struct{}{}
	}
	d.mu.Unlock()
	if closed {
		return nil, errors.Join(ErrClosed, file.remove())
	}
	return file, nil
}

func (d *Dir) ask() error {
	if d.config.Room == nil {
		return nil
	}
	if err := d.config.Room(); err != nil {
		return fmt.Errorf("spill to disk: %w", err)
	}
	return nil
}

// take counts n bytes more, if they are within the bound.
func (d *Dir) take(n int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.closed:
		return ErrClosed
	case d.bytes+n > d.config.MaxBytes:
		return ErrFull
	}
	d.bytes += n
	return nil
}

func (d *Dir) give(n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bytes -= n
}

// Stats says how much lies on disk.
type Stats struct {
	Files int   // bodies that lie there
	Bytes int64 // of all files
}

// Stats returns how much lies on disk now.
func (d *Dir) Stats() Stats {
	d.mu.Lock()
	defer d.mu.Unlock()
	return Stats{Files: len(d.files), Bytes: d.bytes}
}

// Close removes all files; those who still use one get errors. A second Close returns nil.
func (d *Dir) Close() error {
	d.mu.Lock()
	d.closed = true
	left := make([]*File, 0, len(d.files))
	for f := range d.files {
		left = append(left, f)
	}
	d.mu.Unlock()
	errs := make([]error, 0, len(left))
	for _, f := range left {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// File is one body. It is written from beginning to end, and then read. It has one user at a time.
type File struct {
	dir  *Dir
	file *os.File
	size int64
	sum  uint32
	once sync.Once
}

var table = crc32.MakeTable(crc32.Castagnoli)

// Write appends p whole, or leaves the file as it was and returns an error: ErrFull, ErrClosed, or
// that of the disk.
func (f *File) Write(p []byte) (int, error) {
	n := int64(len(p))
	if f.size/askEvery != (f.size+n)/askEvery {
		if err := f.dir.ask(); err != nil {
			return 0, err
		}
	}
	if err := f.dir.take(n); err != nil {
		return 0, err
	}
	if _, err := f.file.WriteAt(p, f.size); err != nil {
		f.dir.give(n) // what was written of it is overwritten, or never read
		return 0, fmt.Errorf("spill to disk: %w", err)
	}
	f.size += n
	f.sum = crc32.Update(f.sum, table, p)
	return len(p), nil
}

// Size is how many bytes were written.
func (f *File) Size() int64 { return f.size }

// Reader returns a reader of what was written, from its beginning. In place of the last io.EOF it
// returns ErrCorrupt if the bytes were not those.
func (f *File) Reader() io.Reader { return &reader{file: f} }

type reader struct {
	file *File
	at   int64
	sum  uint32
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	f := r.file
	p = p[:min(int64(len(p)), f.size-r.at)]
	n, err := f.file.ReadAt(p, r.at)
	r.sum = crc32.Update(r.sum, table, p[:n])
	r.at += int64(n)
	switch {
	case errors.Is(err, io.EOF), r.at == f.size && r.sum != f.sum: // shorter than it was, or not the same
		return n, fmt.Errorf("read back what was spilled: %w", ErrCorrupt)
	case err != nil:
		return n, fmt.Errorf("read back what was spilled: %w", err)
	case r.at == f.size:
		return n, io.EOF
	default:
		return n, nil
	}
}

// Close removes the file. A second Close returns nil.
func (f *File) Close() (err error) {
	f.once.Do(func() {
		err = f.remove()
		f.dir.mu.Lock()
		defer f.dir.mu.Unlock()
		delete(f.dir.files, f)
		f.dir.bytes -= f.size
	})
	return err
}

func (f *File) remove() error {
	err := os.Remove(f.file.Name())
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // somebody cleaned up
	}
	return errors.Join(f.file.Close(), err)
}
