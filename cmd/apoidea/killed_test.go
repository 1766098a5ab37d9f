//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestKilledPeerArchivesNoBodyTwice: what lies in the archive of a peer that was killed (SIGKILL)
// is known when it is met again, though nobody was told of it.
//
// Slow: three processes crawl, and a death has to be detected.
func TestKilledPeerArchivesNoBodyTwice(t *testing.T) {
	t.Parallel()
	const hosts, each = 6, 120 // two hosts have the same pages, the second one in another order
	var asked atomic.Int64
	site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
			return
		}
		asked.Add(1)
		time.Sleep(20 * time.Millisecond)
		rw.Header().Set("Content-Type", "text/html")
		host := 0
		_, _ = fmt.Sscanf(r.Host, "h%d", &host)
		if r.URL.Path != "/" {
			fmt.Fprint(rw, "<p>", strings.Repeat(fmt.Sprintf("page %s of site %d ", r.URL.Path, host/2), 40))
			return
		}
		fmt.Fprint(rw, "<p>the root of ", r.Host)
		for i := range each {
			fmt.Fprintf(rw, "<a href=/%d>page</a>", (i+host%2*each/2)%each)
		}
	}))
	defer site.Close()
	_, port, _ := net.SplitHostPort(site.Listener.Addr().String())
	dir := filepath.Join(t.TempDir(), "peer")
	args := []string{"run", "--until-idle", "--quiet", "--data-dir", dir, "--allow-private", "--delay", "0", "--dashboard", "off", "--scope", "*.same.localhost"}
	for i := range hosts {
		args = append(args, fmt.Sprintf("http://h%d.same.localhost:%s/", i, port))
	}
	for _, until := range []int64{200, 450} {
		cmd := command(t, args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); asked.Load() < until && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	if out, code := say(t, args...); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	whole, revisits, twice := make(map[string]int), 0, 0
	files, _ := filepath.Glob(filepath.Join(dir, "archive", "*.cdxj"))
	for _, name := range files {
		index, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(index)) {
			var rec struct{ URL, MIME, Digest string }
			if _, fields, ok := strings.Cut(line, " {"); !ok || json.Unmarshal([]byte("{"+fields), &rec) != nil {
				t.Fatalf("%s: %q", name, line)
			}
			switch {
			case rec.MIME == "warc/revisit":
				revisits++
			case !strings.HasSuffix(rec.URL, "/robots.txt"):
				if whole[rec.Digest] > 0 {
					twice++
				}
				whole[rec.Digest]++
			}
		}
	}
	t.Logf("%d files, %d bodies, %d revisits, %d archived once more; %d requests", len(files), len(whole), revisits, twice, asked.Load())
	const bodies = hosts + hosts/2*each
	const late = bodies / 20 // on a busy machine some wait too long for another copy that is being archived
	if len(whole) != bodies || twice > late {
		t.Errorf("%d bodies, %d of them archived once more; want %d, %d at most", len(whole), twice, bodies, late)
	}
}
