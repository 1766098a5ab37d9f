//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
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

// TestRunAfterRepair: the run after a repair goes on with the job that was, asks for what is lost alone, and counts all of it as its own, with a URL and without.
func TestRunAfterRepair(t *testing.T) {
	site, asked := pagesOf(t, 40)
	dir := filepath.Join(t.TempDir(), "peer")
	slowly(t, asked, 15, crawlArgs(dir, site)...)
	if out, code := say(t, crawlArgs(dir, site)...); code != exitDone {
		t.Fatalf("exit code %d: %s", code, out)
	}
	for i, args := range [][]string{crawlArgs(dir), crawlArgs(dir, site)} {
		files, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
		if err != nil || len(files) < 2 {
			t.Fatalf("%s, %v", files, err)
		}
		if err := os.Remove(files[0]); err != nil {
			t.Fatal(err)
		}
		var mended struct {
			Again int64 `json:"again_total"`
		}
		raw, err := command(t, "repair", "--json", "--data-dir", dir).Output()
		if err := errors.Join(err, json.Unmarshal(raw, &mended)); err != nil || mended.Again < 10 || mended.Again > 30 {
			t.Fatalf("%v: %s", err, raw)
		}
		before := asked.Load()
		out, code := say(t, args...)
		if n := asked.Load() - before; code != exitDone || n != mended.Again || !strings.Contains(out, fmt.Sprintf("\n%d pages, ", mended.Again)) || strings.Contains(out, " posted") {
			t.Errorf("round %d: %d requests for %d pages that were lost, exit code %d: %s", i, n, mended.Again, code, out)
		}
	}
}
