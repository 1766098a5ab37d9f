//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// pagesOf is a site of n pages, of which the first links to all others, and how many requests for
// pages it has met.
func pagesOf(t *testing.T, n int) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		asked.Add(1)
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<p>what "+r.URL.Path+" has to say")
		for i := range n - 1 {
			if r.URL.Path == "/" {
				fmt.Fprintf(w, "<a href=/%d>page</a>", i)
			}
		}
	}))
	t.Cleanup(site.Close)
	return site.URL + "/", asked
}

// heavyPages is a site as pagesOf, of pages of 200 KB that do not pack.
func heavyPages(t *testing.T, n int) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/robots.txt" { // a peer that is started again reads that again
			asked.Add(1)
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range n {
			if r.URL.Path == "/" {
				fmt.Fprintf(w, "<a href=/%d>page</a>", i)
			}
		}
		for range 4000 {
			fmt.Fprintf(w, "%048x ", rand.Int64())
		}
	}))
	t.Cleanup(site.Close)
	return site.URL + "/", asked
}

// crawlArgs is a command line that crawls to the end.
func crawlArgs(dir string, more ...string) []string {
	return append([]string{"run", "--until-idle", "--data-dir", dir, "--allow-private", "--delay", "0", "--dashboard", "off"}, more...)
}

// TestSameCommandAgain: what a job has finished is not crawled anew by the same command, unless it
// is asked for; another job, or one that fetched nothing, is.
//
// Slow: starts a process several times on one data directory.
func TestSameCommandAgain(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 12)
	dir := filepath.Join(t.TempDir(), "peer")
	finished := regexp.MustCompile(`finished on \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, nothing left to fetch: 12 pages, 0 duplicates; --again`)
	crawl := func(want int64, args ...string) string {
		t.Helper()
		before := asked.Load()
		out, code := say(t, args...)
		if n := asked.Load() - before; code != exitDone || n != want {
			t.Errorf("%s: %d requests, want %d, exit code %d: %s", strings.Join(args, " "), n, want, code, out)
		}
		return out
	}
	crawl(12, crawlArgs(dir, site)...)
	if out := crawl(0, crawlArgs(dir, site)...); !finished.MatchString(out) || strings.Contains(out, "fetched again") {
		t.Errorf("the same again: %s", out)
	}
	out := crawl(0, crawlArgs(dir, site, "--json")...)
	var last struct {
		Finished *struct{ State, Finished string }
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &last); err != nil || last.Finished == nil || last.Finished.State != "done" || last.Finished.Finished == "" {
		t.Errorf("as JSON: %v: %s", err, out)
	}
	crawl(12, crawlArgs(dir, site, "--again")...)
	crawl(12, crawlArgs(dir, site, "--max-depth", "1")...)
	if out := crawl(0, crawlArgs(dir, site, "--max-depth", "1")...); !finished.MatchString(out) {
		t.Errorf("another job again: %s", out)
	}

	_, end := peer(t, dir, "--network", "at-home", "--dashboard", "off")
	defer end()
	for _, more := range []string{"", "--wait"} {
		if out := crawl(0, append(strings.Fields("crawl --data-dir "+dir+" "+more), site)...); !finished.MatchString(out) {
			t.Errorf("crawl %s: %s", more, out)
		}
	}
	crawl(12, "crawl", "--data-dir", dir, "--wait", "--again", site)
}

// TestNothingFetchedIsNotFinished: where nothing was fetched the same command tries again.
//
// Slow: a process retries a site that fails.
func TestNothingFetchedIsNotFinished(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 3)
	dir := filepath.Join(t.TempDir(), "peer")
	if out, code := say(t, "run", "--until-idle", "--data-dir", dir, "--dashboard", "off", site); code != exitRefused {
		t.Errorf("private: exit code %d: %s", code, out)
	}
	if out, code := say(t, crawlArgs(dir, site)...); code != exitDone || asked.Load() != 3 {
		t.Errorf("%d requests, exit code %d: %s", asked.Load(), code, out)
	}
}

// slowly is a command that crawls a site, and is ended once the site has met so many requests.
func slowly(t *testing.T, asked *atomic.Int64, until int64, args ...string) {
	t.Helper()
	cmd := command(t, append(args, "--delay", "100ms")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, new(spoken), func() bool { return asked.Load() >= until })
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

// TestRestThatIsRefused: a run without a URL that could have nothing of what was left says why, and
// its exit code is that of a run with one.
func TestRestThatIsRefused(t *testing.T) {
	t.Parallel()
	site, asked := pagesOf(t, 30)
	dir := filepath.Join(t.TempDir(), "peer")
	slowly(t, asked, 5, crawlArgs(dir, site)...)
	out, code := say(t, "run", "--until-idle", "--data-dir", dir, "--dashboard", "off")
	if code != exitRefused || !strings.Contains(out, "blocked_address (") || !strings.Contains(out, "--allow-private") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := say(t, "run", "--until-idle", "--data-dir", dir, "--dashboard", "off"); code != exitDone {
		t.Errorf("with nothing left: exit code %d: %s", code, out)
	}
}

// TestFileForURL: a file where a URL should be is told from a host, and nothing is begun.
func TestFileForURL(t *testing.T) {
	t.Parallel()
	site, _ := pagesOf(t, 2)
	dir := t.TempDir()
	there := filepath.Join(dir, "example.org")
	if err := os.WriteFile(there, []byte(site), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"seeds.txt", "Seeds.CSV", "seeds.lst", there} {
		for _, of := range []string{"run --until-idle --data-dir " + dir + "/peer", "crawl --data-dir " + dir + "/peer", "cluster up -n 1 --dir " + dir + "/ring"} {
			if out, code := say(t, append(strings.Fields(of), name)...); code != exitUsage || !strings.Contains(out, "--seeds "+name) {
				t.Errorf("%s %s: exit code %d: %s", of, name, code, out)
			}
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("%v is there, %v", left, err)
	}
	if out, code := say(t, crawlArgs(filepath.Join(dir, "peer"), strings.TrimPrefix(site, "http://"))...); code != exitDone || !strings.Contains(out, "\n2 pages, ") {
		t.Errorf("a host without a scheme: exit code %d: %s", code, out)
	}
}

// TestRefusedPort: a seed at which nothing listens is told of at once, with the reason, and ends
// the crawl soon; it is not lost, as the same command tries it again.
//
// Slow: a process retries refused connections before it gives up.
func TestRefusedPort(t *testing.T) {
	t.Parallel()
	at := free(t)
	dir := filepath.Join(t.TempDir(), "peer")
	const reason = "nothing listens there"
	var said spoken
	cmd := command(t, crawlArgs(dir, "http://"+at+"/")...)
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, &said, func() bool { return strings.Contains(said.String(), " posted\n") })
	begin := time.Now()
	await(t, &said, func() bool { return strings.Contains(said.String(), reason) })
	if took := time.Since(begin); took > 4*time.Second {
		t.Errorf("the reason is said after %v", took)
	}
	err := cmd.Wait()
	if took := time.Since(begin); cmd.ProcessState.ExitCode() != exitFailed || took > 30*time.Second || !strings.Contains(said.String(), "1 deferred") {
		t.Errorf("ended after %v, %v: %s", took, err, said.String())
	}
	if out, code := say(t, crawlArgs(dir, "http://"+at+"/")...); code != exitFailed || !strings.Contains(out, " continued") || !strings.Contains(out, reason) {
		t.Errorf("the same again: exit code %d: %s", code, out)
	}
}

// TestNoPublicRing: a peer of the public profile that is told of no ring says that none is built in
// and what to do; one that founds a ring on purpose does not.
func TestNoPublicRing(t *testing.T) {
	t.Parallel()
	site, _ := pagesOf(t, 2)
	public := []string{"--profile", "public", "--admission", "open", "--contact", "https://you.example/", site}
	const sentence = "no public ring is built in"
	out, code := say(t, crawlArgs(filepath.Join(t.TempDir(), "alone"), public...)...)
	if code != exitDone || strings.Count(out, sentence) != 1 || !strings.Contains(out, "--dns-seed NAME") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := say(t, crawlArgs(filepath.Join(t.TempDir(), "founder"), append(public, "--found")...)...); code != exitDone || strings.Contains(out, sentence) {
		t.Errorf("with --found: exit code %d: %s", code, out)
	}
}
