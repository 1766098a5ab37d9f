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

// maxBackgroundErrors is how many flushes and compactions may fail in a row for another reason than
// a failed write before the store gives up. Pebble tries again at once and for ever, while writers
// wait.
const maxBackgroundErrors = 10

// failure is the one place where a store learns that it can write no more.
type failure struct {
	log  *slog.Logger
	done chan struct{} // closed by the first call of fail after arm

	mu    sync.Mutex // guards err and armed
	err   error
	armed bool

	background atomic.Int32 // failed background operations since the last that succeeded
}

func newFailure(log *slog.Logger) *failure {
	return &failure{log: log, done: make(chan struct{})}
}

// arm ends the time of opening, in which a failed write is returned to the one who opens.
func (f *failure) arm() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.armed = true
	return f.err
}

// fail records the first cause. During opening it returns; afterwards it does not return: the
// goroutine sleeps until the process ends. This is what keeps Pebble from panicking with its locks
// held, and it is what its Logger promises of Fatalf. Everybody who waits for that goroutine waits
// for f.done too.
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
			say = f.log.Info // whoever ends for it says so, and what helps
		}
		say("storage failed, no more is written", "err", cause)
	}
	select {}
}

// report records a failure for a caller that must go on.
func (f *failure) report(cause error) { go f.fail(cause) }

// check puts a goroutine that is about to write to sleep when the store has failed, so that the
// disk stays as it is.
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

// logger gives Pebble's messages to slog. Its Fatalf does not end the process.
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

// events turns background errors into a failure where they do not pass, and logs what is worth a
// line.
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
				f.report(fmt.Errorf("background work fails again and again: %w", damage(err)))
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) {
			f.report(fmt.Errorf("%w: %s cannot be read as it was written", ErrDamaged, info.Path))
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			log.Warn("disk is slow", "file", info.Path, "duration", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			log.Debug("writers wait", "reason", info.Reason)
		},
		WriteStallEnd: func() { log.Debug("writers go on") },
		FlushEnd: func(info pebble.FlushInfo) {
			succeeded(info.Err)
			log.Debug("memory table written out", "duration", info.TotalDuration, "err", info.Err)
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

// Remove passes errors on: an obsolete file that stays is no loss. After a failure nothing is
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

var errNoPreallocation = errors.New("no room to preallocate")

// Preallocate is an optimisation. Its failure is not one of the store: the write that follows will
// tell.
func (f *guardedFile) Preallocate(offset, length int64) error {
	f.failure.check()
	if err := f.File.Preallocate(offset, length); err != nil {
		f.failure.log.Debug("not preallocated", "file", f.name, "err", errors.Join(errNoPreallocation, err))
	}
	return nil
}
