package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestAwaitEnd: leave waits for the process that has the data directory, for its end or an
// interrupt, but not for ever: then it names the directory.
func TestAwaitEnd(t *testing.T) {
	g := &globals{dataDir: t.TempDir()}
	db := filepath.Join(g.dataDir, "db")
	if err := os.Mkdir(db, 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := vfs.Default.Lock(filepath.Join(db, "LOCK")) // as a process that runs has it
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if err := g.awaitEnd(t.Context()); err == nil || !strings.Contains(err.Error(), g.dataDir) {
			t.Errorf("of a process that does not end: %v", err)
		}
		if waited := time.Since(start); waited != endTime {
			t.Errorf("waited %s, want %s", waited, endTime)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := g.awaitEnd(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != endTime+time.Second {
			t.Errorf("of a wait that is broken off: %v, after %s", err, time.Since(start))
		}
	})
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.awaitEnd(t.Context()); err != nil {
		t.Errorf("of a process that has ended: %v", err)
	}
}
