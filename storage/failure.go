package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// maxBackgroundErrors is the number of consecutive flushes and compactions that fail, other than by
// a failed write, before the store fails. Pebble retries at once and without limit, while writers
// wait.
const maxBackgroundErrors = 10

// failure records the failure of a store.
type failure struct {
	log  *slog.Logger
	done chan struct{} // closed by the first call of fail after arm

	mu    sync.Mutex // guards err and armed
	err   error
	armed bool

	background atomic.Int32 // consecutive failed background operations
}

// arm ends the opening phase, in which a failed write is returned to the caller of Open.
func (f *failure) arm() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
	return f.err
}

// fail records the first cause. After the opening phase it does not return: the goroutine sleeps
// until the process ends. This keeps Pebble from panicking with its locks held, and fulfills the
// contract of its Logger's Fatalf. All waits for that goroutine also wait for f.done.
func (f *failure) fail(cause error) {
	f.mu.Lock()
	first := f.err == nil
	if first {
		f.err = fmt.Errorf("%w: %w", ErrFailed, cause)
	}
	armed := f.armed
	if armed && first {
		close(f.done)
	}
	f.mu.Unlock()
	if !armed {
		return
	}
	if first {
		say := f.log.Error
		if errors.Is(cause, syscall.ENOSPC) {
			say = f.log.Info // the caller that exits reports it with advice
		}
		say("storage failed, writes disabled", "err", cause)
	}
	select {}
}

// report records a failure for a caller that must continue.
func (f *failure) report(cause error) { go f.fail(cause) }

// check blocks a goroutine that is about to write once the store has failed, so that the disk stays
// unchanged.
func (f *failure) check() {
	select {
	case <-f.done:
		select {}
	default:
	}
}

func (f *failure) Err() error {
	select {
	case <-f.done:
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.err
	default:
		return nil
	}
}

// logger passes Pebble's messages to slog. Its Fatalf does not end the process.
type logger struct {
	log     *slog.Logger
	failure *failure
}

func (l logger) Infof(format string, args ...any) {
	l.log.Debug("pebble", "text", plainText(fmt.Sprintf(format, args...)))
}

func (l logger) Errorf(format string, args ...any) {
	l.log.Warn("pebble", "text", plainText(fmt.Sprintf(format, args...)))
}

func (l logger) Fatalf(format string, args ...any) {
	l.failure.fail(fmt.Errorf(format, args...))
}

// events turns persistent background errors into a failure, and logs relevant events.
func events(log *slog.Logger, f *failure) *pebble.EventListener {
	succeeded := func(err error) {
		if err == nil {
			f.background.Store(0)
		}
	}
	return &pebble.EventListener{
		BackgroundError: func(err error) {
			log.Warn("storage background error", "err", damage(err))
			if f.background.Add(1) >= maxBackgroundErrors {
				f.report(fmt.Errorf("repeated background errors: %w", damage(err)))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			f.report(fmt.Errorf("%w: corrupt file %s", ErrDamaged, info.Path))
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			log.Warn("disk is slow", "file", info.Path, "duration", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Debug("write stall", "reason", info.Reason)
		},
		WriteStallEnd: func() { log.Debug("write stall ended") },
		FlushEnd: func(info pebble.FlushInfo) {
			succeeded(info.Err)
			log.Debug("memory table flushed", "duration", info.TotalDuration, "err", info.Err)
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			succeeded(info.Err)
			log.Debug("compacted", "reason", info.Reason, "duration", info.TotalDuration, "err", info.Err)
		},
	}
}

// guardedFS sees every failed write before Pebble does.
type guardedFS struct {
	vfs.FS
	failure *failure
}

// guard runs one operation that writes.
func (f *failure) guard(what, name string, op func() error) error {
	f.check()
	err := op()
	if err != nil {
		f.fail(fmt.Errorf("%s %s: %w", what, name, err))
	}
	return err
}

func (g *guardedFS) Unwrap() vfs.FS { return g.FS }

func (g *guardedFS) Create(name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = g.failure.guard("create", name, func() error {
		file, err = g.FS.Create(name, c)
		return err
	})
	return g.wrap(name, file, err)
}

func (g *guardedFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (file vfs.File, err error) {
	err = g.failure.guard("open", name, func() error {
		file, err = g.FS.OpenReadWrite(name, c, o...)
		return err
	})
	return g.wrap(name, file, err)
}

func (g *guardedFS) ReuseForWrite(old, name string, c vfs.DiskWriteCategory) (file vfs.File, err error) {
	err = g.failure.guard("reuse", name, func() error {
		file, err = g.FS.ReuseForWrite(old, name, c)
		return err
	})
	return g.wrap(name, file, err)
}

func (g *guardedFS) OpenDir(name string) (vfs.File, error) {
	file, err := g.FS.OpenDir(name)
	return g.wrap(name, file, err)
}

func (g *guardedFS) Link(old, name string) error {
	return g.failure.guard("link", name, func() error { return g.FS.Link(old, name) })
}

func (g *guardedFS) Rename(old, name string) error {
	return g.failure.guard("rename", name, func() error { return g.FS.Rename(old, name) })
}

// Remove passes errors on: an obsolete file that stays is harmless. After a failure nothing is
// removed.
func (g *guardedFS) Remove(name string) error {
	g.failure.check()
	return g.FS.Remove(name)
}

func (g *guardedFS) wrap(name string, file vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &guardedFile{File: file, name: name, failure: g.failure}, nil
}

type guardedFile struct {
	vfs.File
	name    string
	failure *failure
}

func (f *guardedFile) Write(p []byte) (n int, err error) {
	err = f.failure.guard("write", f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

func (f *guardedFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.failure.guard("write", f.name, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

func (f *guardedFile) Sync() error {
	return f.failure.guard("sync", f.name, f.File.Sync)
}

func (f *guardedFile) SyncData() error {
	return f.failure.guard("sync", f.name, f.File.SyncData)
}

func (f *guardedFile) SyncTo(length int64) (full bool, err error) {
	err = f.failure.guard("sync", f.name, func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

var errNoPreallocation = errors.New("preallocation failed")

// Preallocate is an optimization. Its failure is ignored: the write that follows fails too.
func (f *guardedFile) Preallocate(offset, length int64) error {
	f.failure.check()
	if err := f.File.Preallocate(offset, length); err != nil {
		f.failure.log.Debug("preallocation failed", "file", f.name, "err", errors.Join(errNoPreallocation, err))
	}
	return nil
}
