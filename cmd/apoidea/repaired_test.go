//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRunAfterRepairWithoutDatabase: the job is the one that was, also where all of the database was lost.
func TestRunAfterRepairWithoutDatabase(t *testing.T) {
	site, asked := pagesOf(t, 40)
	dir := filepath.Join(t.TempDir(), "peer")
	if out, code := say(t, crawlArgs(dir, site)...); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if err := os.RemoveAll(filepath.Join(dir, "db")); err != nil {
		t.Fatal(err)
	}
	if out, code := say(t, "repair", "--data-dir", dir); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out)
	}
	before := asked.Load()
	out, code := say(t, crawlArgs(dir, site)...)
	if n := asked.Load() - before; code != exitDone || n != 0 || !strings.Contains(out, "finished: 40 pages; --again") {
		t.Errorf("%d requests of 40 pages that the archive has, exit code %d: %s", n, code, out)
	}
}
