//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRunAfterRepairWithoutDatabase: the job is the one that was, also where all of the database
// was lost.
func TestRunAfterRepairWithoutDatabase(t *testing.T) {
	t.Parallel()
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
	if n := asked.Load() - before; code != exitDone || n != 0 || !strings.Contains(out, "finished, nothing left to fetch: 40 pages, ") {
		t.Errorf("%d requests of 40 pages that the archive has, exit code %d: %s", n, code, out)
	}
}

// TestRunAfterRepair: the run after a repair goes on with the job that was, asks for what is lost
// alone, and counts all of it as its own, with a URL and without.
func TestRunAfterRepair(t *testing.T) {
	t.Parallel()
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

// TestRunWithoutDatabase: where the database is gone no other peer begins; repair is named, and
// brings back peer and job.
//
// Slow: starts a process several times on one data directory.
func TestRunWithoutDatabase(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 10)
	for name, c := range map[string]struct {
		gone []string
		// asked is how many pages the run after the repair asks for.
		asked int64
	}{
		"the database":         {[]string{"db"}, 0},
		"all that is in it":    {[]string{"db/*"}, 0},
		"database and archive": {[]string{"db", "archive"}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "peer")
			first, code := say(t, crawlArgs(dir, site)...)
			if code != exitDone {
				t.Fatalf("exit code %d: %s", code, first)
			}
			for _, pattern := range c.gone {
				files, err := filepath.Glob(filepath.Join(dir, pattern))
				if err != nil || len(files) == 0 {
					t.Fatalf("no %s, %v", pattern, err)
				}
				for _, file := range files {
					if err := os.RemoveAll(file); err != nil {
						t.Fatal(err)
					}
				}
			}
			copied, _ := os.ReadFile(filepath.Join(dir, "essentials"))
			before := asked.Load()
			for _, args := range [][]string{crawlArgs(dir, site), crawlArgs(dir)} {
				if out, code := say(t, args...); code != exitFailed || !strings.Contains(out, "apoidea repair --data-dir "+dir) || asked.Load() != before {
					t.Errorf("%d requests, exit code %d: %s", asked.Load()-before, code, out)
				}
			}
			if now, err := os.ReadFile(filepath.Join(dir, "essentials")); err != nil || !bytes.Equal(now, copied) {
				t.Errorf("the copy of identity and jobs is another: %v", err)
			}
			if out, code := say(t, "check", "--data-dir", dir); code != exitFailed || !strings.Contains(out, "apoidea repair") {
				t.Errorf("check: exit code %d: %s", code, out)
			}
			if out, code := say(t, "repair", "--data-dir", dir); code != exitDone {
				t.Fatalf("repair: exit code %d: %s", code, out)
			}
			out, code := say(t, crawlArgs(dir, site)...)
			self := regexp.MustCompile(`peer (\w+) serves`)
			if n := asked.Load() - before; code != exitDone || n != c.asked || self.FindString(out) != self.FindString(first) || strings.Contains(out, " posted") {
				t.Errorf("%d requests, want %d, exit code %d: %s", n, c.asked, code, out)
			}
			if out, code := say(t, "check", "--data-dir", dir); code != exitDone {
				t.Errorf("check of what was repaired: exit code %d: %s", code, out)
			}
		})
	}
}

// TestRepairOfArchiveAlone: from an archive without database and copy another peer is made, without
// jobs: the job that is posted again fetches all pages, and archives no body twice.
func TestRepairOfArchiveAlone(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 40)
	dir := filepath.Join(t.TempDir(), "peer")
	slowly(t, asked, 15, crawlArgs(dir, site)...)
	if err := errors.Join(os.RemoveAll(filepath.Join(dir, "db")), os.RemoveAll(filepath.Join(dir, "essentials"))); err != nil {
		t.Fatal(err)
	}
	if out, code := say(t, "run", "--data-dir", dir); code != exitFailed || !strings.Contains(out, "apoidea repair") {
		t.Errorf("run: exit code %d: %s", code, out)
	}
	if out, code := say(t, "repair", "--data-dir", dir); code != exitDone || !strings.Contains(out, "identity lost") {
		t.Fatalf("repair: exit code %d: %s", code, out)
	}
	before := asked.Load()
	out, code := say(t, crawlArgs(dir, site)...)
	if n := asked.Load() - before; code != exitDone || n != 40 || !strings.Contains(out, " posted") {
		t.Errorf("%d requests for 40 pages, exit code %d: %s", n, code, out)
	}
	if n := revisits(t, dir); n < 10 {
		t.Errorf("%d pages became revisit records, want at least 10 of those in the archive", n)
	}
	if out, code := say(t, "check", "--data-dir", dir); code != exitDone {
		t.Errorf("check: exit code %d: %s", code, out)
	}
}

// revisits counts the revisit records of an archive.
func revisits(t *testing.T, dir string) (n int) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		members, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(members)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
		n += bytes.Count(raw, []byte("\nWARC-Type: revisit"))
	}
	return n
}

// TestNoDataIsNothingElse: a directory of which the database is gone, or that cannot be looked at,
// is not called one without data.
func TestNoDataIsNothingElse(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(top, "peer", "archive"), 0o700), os.WriteFile(filepath.Join(top, "peer", "archive", "a.warc"), nil, 0o600),
		os.WriteFile(filepath.Join(top, "file"), nil, 0o600), os.Mkdir(filepath.Join(top, "nothing"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]struct {
		code         int
		export, mend string
	}{
		"peer":    {exitFailed, "database missing", "database:"},
		"file":    {exitFailed, "not a directory", "not a directory"},
		"nothing": {exitNoPeer, "no data", "no data"},
	} {
		dir = filepath.Join(top, dir)
		if out, code := say(t, "export", "urls", "--data-dir", dir); code != want.code || !strings.Contains(out, want.export) || strings.Contains(out, "apoidea repair") != (want.export[0] == 'd') {
			t.Errorf("export of %s: exit code %d: %s", dir, code, out)
		}
		if out, code := say(t, "check", "--data-dir", dir); code != want.code || !strings.Contains(out, want.mend) {
			t.Errorf("check of %s: exit code %d: %s", dir, code, out)
		}
	}
}
