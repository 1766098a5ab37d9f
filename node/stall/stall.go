// Package stall notices a peer in which nothing moves although there is work, such as after a
// deadlock: something that no bound on time has ended. It is a plain state machine; whoever drives
// it looks at the peer once in a while. It also keeps the stacks of such a moment, in a few files.
package stall

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

// After is how long nothing may move. No exchange waits as long for a byte, no owner for an
// acknowledgement.
const After = time.Minute

// mostApart is how far two looks may be apart for what lies between them to count: a process that
// was stopped in between is not at fault.
const mostApart = 15 * time.Second

// Look is what is seen of a peer at one moment.
type Look struct {
	// Moved is a sum of counters that grow with whatever gets done; if it is another than at the
	// last look, something was.
	Moved int64
	// Work says what there is to do at once, empty if nothing is: neither a pause, a limit nor a
	// site's wish for patience stands before it.
	Work string
}

// Watch remembers since when nothing has moved. The zero value is for use; it has one user.
type Watch struct {
	// After replaces the constant; zero: that.
	After time.Duration

	looked  time.Time
	since   time.Time // when something moved last, or there was no work
	moved   int64
	stalled bool
}

// Change is what a look brought.
type Change uint8

// The changes.
const (
	None Change = iota
	// Begun: nothing has moved for long enough, which is told now.
	Begun
	// Over: something moved again, or there is no work left.
	Over
)

// See takes a look in.
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

// Since is when something moved last.
func (w *Watch) Since() time.Time { return w.since }

const (
	prefix = "stall-"
	suffix = ".txt"
	// maxFiles bounds the files of stacks, maxStacks one of them in bytes.
	maxFiles  = 4
	maxStacks = 8 << 20
)

// Stacks writes the stacks of all goroutines into a new file of dir, which is made when it is not
// there, and removes the oldest files beyond four.
func Stacks(dir string, now time.Time, why string) (path string, err error) {
	buf := make([]byte, 256<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, min(2*n, maxStacks))
		n = runtime.Stack(buf, true)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("write the stacks: %w", err)
	}
	path = filepath.Join(dir, prefix+now.UTC().Format("20060102T150405.000Z")+suffix)
	text := append(fmt.Appendf(nil, "%s: %s\n\n", now.UTC().Format(time.RFC3339), why), buf[:n]...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", fmt.Errorf("write the stacks: %w", err)
	}
	return path, prune(dir)
}

// prune removes the oldest files beyond the bound; their names are in the order of time.
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
