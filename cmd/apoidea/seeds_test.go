//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSeedsFromAList: a list from a file or the standard input, short or too long for a job's
// record, is fetched once, by one peer and by eight; the same again fetches nothing, and what is
// wrong in it is told by line before anything is begun.
//
// Slow: five crawls of 2,600 pages, one of them by a ring of eight processes.
func TestSeedsFromAList(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 1)
	dir := t.TempDir()
	list := func(name string, n int) string {
		var text strings.Builder
		text.WriteString("# pages\n\n")
		for i := range n {
			fmt.Fprintf(&text, "%sof/%d\n", site, i/2) // each twice
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	short, long := list("short", 20), list("long", 5200)
	fetched := func(want int64, args ...string) string {
		t.Helper()
		before := asked.Load()
		out, code := say(t, args...)
		if n := asked.Load() - before; code != exitDone || n < want || n > want+want/1000 { // who wakes up a second late drops its leases
			t.Errorf("%s: %d requests, want %d, exit code %d: %s", strings.Join(args, " "), n, want, code, out)
		}
		return out
	}
	alone := filepath.Join(dir, "peer")
	more := []string{"--max-depth", "0", "--trap-rules", "off"}
	fetched(10, crawlArgs(alone, append(more, "--seeds", short)...)...)
	fetched(2600, crawlArgs(alone, append(more, "--seeds", long)...)...)
	if out := fetched(0, crawlArgs(alone, append(more, "--seeds", long)...)...); !strings.Contains(out, "finished on ") {
		t.Errorf("the same list again: %s", out)
	}
	fetched(2600, append([]string{"cluster", "up", "-n", "8", "--until-idle", "--dir", filepath.Join(dir, "ring"), "--allow-private", "--delay", "0", "--seeds", long}, more...)...)

	_, end := peer(t, alone, "--dashboard", "off", "--network", "at-home")
	defer end()
	cmd := command(t, "crawl", "--data-dir", alone, "--max-depth", "0", "--seeds", "-", "--wait", "--again")
	f, err := os.Open(long)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	before := asked.Load()
	cmd.Stdin = f
	out, err := cmd.CombinedOutput()
	if n := asked.Load() - before; err != nil || n < 2600 || n > 2602 || !strings.Contains(string(out), "a list of 5200") {
		t.Errorf("from the standard input: %d requests, %v: %s", n, err, out)
	}

	if err := os.WriteFile(short, []byte("http://a.example/\ngopher://a.example\nhttp://a.example/x.pdf\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, of := range []string{"run --data-dir " + dir + "/new", "crawl --data-dir " + alone, "cluster up -n 2 --dir " + dir + "/none"} {
		out, code := say(t, append(strings.Fields(of), "--seeds", short, "--exclude", "/*.pdf$")...)
		if code != exitUsage || !strings.Contains(out, "line 2: ") || !strings.Contains(out, `line 3: "http://a.example/x.pdf": excluded by --exclude "/*.pdf$"`) {
			t.Errorf("%s: exit code %d: %s", of, code, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "new")); err == nil {
		t.Error("a data directory was made for a wrong list")
	}
}
