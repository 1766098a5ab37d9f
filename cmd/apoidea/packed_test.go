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

// TestArchivesPackedInTwoWays: a peer that is started with another --archive goes on beside what it
// has; both kinds are checked, mended and exported.
//
// Slow: runs two whole crawls as processes.
func TestArchivesPackedInTwoWays(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 40)
	dir := filepath.Join(t.TempDir(), "peer")
	slowly(t, asked, 15, crawlArgs(dir, "--archive", "zstd", site)...)
	if out, code := say(t, crawlArgs(dir, "--archive", "gzip", site)...); code != exitDone || asked.Load() > 40+2 {
		t.Fatalf("%d requests, exit code %d: %s", asked.Load(), code, out)
	}
	sound := func() {
		t.Helper()
		if out, code := say(t, "check", "--data-dir", dir); code != exitDone {
			t.Errorf("check: exit code %d: %s", code, out)
		}
	}
	sound()
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.zst"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%s, %v", files, err)
	}
	exported := func(name string, more ...string) []byte {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if out, code := say(t, append([]string{"export", "-o", path, "--data-dir", dir}, more...)...); code != exitDone {
			t.Fatalf("export %s: exit code %d: %s", name, code, out)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for name, magic := range map[string]string{"x.warc.zst": "\x28\xb5\x2f\xfd", "x.warc.gz": "\x1f\x8b", "x": "\x1f\x8b", "x.warc": "WARC/1.1"} {
		if raw := exported(name, "warc"); !strings.HasPrefix(string(raw), magic) {
			t.Errorf("%s begins with %q", name, raw[:8])
		}
	}
	if raw := exported("x.cdxj", "cdxj"); strings.Count(string(raw), "\n") != 40 {
		t.Errorf("index %s", raw)
	}
	if raw := string(exported("x.wacz", "wacz")); strings.Contains(raw, ".warc.zst") || !strings.Contains(raw, ".warc.gz") {
		t.Error("the WACZ has a file that is none of gzip members")
	}
	if raw := exported("x.cdxj", "cdxj", "--status", "2xx", "--path", "/*", "--since", "1h"); strings.Count(string(raw), "\n") != 40 {
		t.Errorf("index with a filter %s", raw)
	}
	nothing := filepath.Join(t.TempDir(), "x.wacz")
	out, code := say(t, "export", "wacz", "--host", "nowhere.example", "-o", nothing, "--data-dir", dir)
	if _, err := os.Stat(nothing); code != exitFailed || !strings.Contains(out, "nothing matches --host nowhere.example") || err == nil {
		t.Errorf("empty export: exit code %d: %s; %v", code, out, err)
	}
	reported(t, dir)
	raw, err := os.ReadFile(files[0])
	copy(raw[len(raw)/2:], strings.Repeat("x", 60))
	if err := errors.Join(err, os.WriteFile(files[0], raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	if out, code := say(t, "check", "--data-dir", dir); code == exitDone || !strings.Contains(out, filepath.Base(files[0])) {
		t.Errorf("check of damage: exit code %d: %s", code, out)
	}
	if out, code := say(t, "repair", "--data-dir", dir); code != exitDone {
		t.Fatalf("repair: exit code %d: %s", code, out)
	}
	before := asked.Load()
	out, code = say(t, crawlArgs(dir, "--archive", "zstd", site)...)
	if n := asked.Load() - before; code != exitDone || n > 2 {
		t.Errorf("%d requests for what lay in 60 bytes, exit code %d: %s", n, code, out)
	}
	sound()
}

// reported checks the report of the job of a data directory.
func reported(t *testing.T, dir string) {
	t.Helper()
	var line struct{ Job string }
	out, code := say(t, "export", "urls", "--quiet", "--data-dir", dir)
	if err := json.Unmarshal([]byte(out[:strings.Index(out, "\n")]), &line); err != nil || code != exitDone {
		t.Fatalf("%s, %v", out, err)
	}
	if text, code := say(t, "job", "report", line.Job[:6], "--data-dir", dir); code != exitDone || !strings.Contains(text, fmt.Sprintf("finished URLs  %d, of 1 hosts", strings.Count(out, "\n"))) {
		t.Errorf("report: exit code %d: %s", code, text)
	}
	form := filepath.Join(t.TempDir(), "form")
	if out, code := say(t, "job", "report", "nothing", "-o", form, "--data-dir", dir); code != exitFailed || !strings.Contains(out, `job "nothing": no finished URL`) {
		t.Errorf("unknown job: exit code %d: %s", code, out)
	}
	if out, code := say(t, "job", "report", line.Job, "-o", form, "--data-dir", dir); code != exitDone {
		t.Errorf("report: exit code %d: %s", code, out)
	}
	if raw, err := os.ReadFile(filepath.Join(form, "report.html")); err != nil || !strings.Contains(string(raw), line.Job) {
		t.Errorf("page %s, %v", raw, err)
	}
}
