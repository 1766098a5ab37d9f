// Package watchdog detects a peer that has work and makes no progress, such as after a deadlock
// that no timeout has ended. It is a state machine without timers: the caller passes periodic
// observations. It also writes the stacks of all goroutines to a few files.
package watchdog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// After is the time without progress that is a stall. No fetch waits as long for a byte, no owner
// for an acknowledgement.
const After = time.Minute

// mostApart is the maximum distance of two observations that count: a process stopped in between is
// not stalled.
const mostApart = 15 * time.Second

// Look is one observation of a peer.
type Look struct {
	// Moved is a sum of counters that grow with progress; a change since the last observation is
	// progress.
	Moved int64
	// Work describes work that is due, empty if none: no pause, limit or crawl delay holds it back.
	Work string
}

// Watch records the time without progress. The zero value is ready for use, by one goroutine.
type Watch struct {
	// After replaces the constant; zero: the constant.
	After time.Duration

	looked  time.Time
	since   time.Time // last progress, or last time without work
	moved   int64
	stalled bool
}

// Change is the result of an observation.
type Change uint8

// The changes.
const (
	None Change = iota
	// Begun: a stall begins.
	Begun
	// Over: progress was made, or no work is left.
	Over
)

// See records an observation.
func (w *Watch) See(now time.Time, l Look) Change {
	after := w.After
	if after == 0 {
		after = After
	}
	apart := now.Sub(w.looked)
	calm := w.looked.IsZero() || apart > mostApart || apart < 0
	moves := l.Work == "" || l.Moved != w.moved
	if calm && !w.stalled || moves {
		w.since = now
	}
	w.looked, w.moved = now, l.Moved
	switch {
	case moves && w.stalled:
		w.stalled = false
		return Over
	case !w.stalled && now.Sub(w.since) >= after:
		w.stalled = true
		return Begun
	default:
		return None
	}
}

// Since returns the time of the last progress.
func (w *Watch) Since() time.Time { return w.since }

const (
	prefix = "stall-"
	suffix = ".txt"
	// maxFiles limits the stack files, maxStacks the bytes of one.
	maxFiles  = 4
	maxStacks = 8 << 20
)

// Stacks writes the stacks of all goroutines to a new file in dir, which it creates if missing, and
// removes the oldest files beyond four.
func Stacks(dir string, now time.Time, why string) (path string, err error) {
	buf := make([]byte, 256<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, min(2*n, maxStacks))
		n = runtime.Stack(buf, true)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	path = filepath.Join(dir, prefix+now.UTC().Format("20060102T150405.000Z")+suffix)
	text := append(fmt.Appendf(nil, "%s: %s\n\n", now.UTC().Format(time.RFC3339), why), buf[:n]...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write stacks: %w", err)
	}
	return path, prune(dir)
}

// prune removes the oldest files beyond maxFiles; their names sort by time.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) && strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names[:max(len(names)-maxFiles, 0)] {
		errs = append(errs, os.Remove(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
