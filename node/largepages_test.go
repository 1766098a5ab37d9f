package node

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// largePages is a web of pages larger than a small peer's memory for them. The seeds are one page
// at each of some hosts, which links to two more.
type largePages struct {
	seeds []string

	mu      sync.Mutex
	digests map[string]bool // of what was served
}

func serveLargePages(t *testing.T, hosts, size int) *largePages {
	t.Helper()
	w := &largePages{digests: make(map[string]bool)}
	filler := bytes.Repeat([]byte("<p>some words of a page that has very many of them</p>\n"), size/55)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
			return
		}
		body := fmt.Appendf(nil, "<title>%s%s</title><a href=/1>1</a><a href=/2>2</a>", r.Host, r.URL.Path)
		body = append(body, filler...)
		rw.Header().Set("Content-Type", "text/html; charset=utf-8")
		rw.Write(body)
		w.mu.Lock()
		defer w.mu.Unlock()
		sum := sha256.Sum256(body)
		w.digests[hex.EncodeToString(sum[:])] = true
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	for i := range hosts {
		w.seeds = append(w.seeds, fmt.Sprintf("http://large%d.web.localhost:%s/", i, at.Port()))
	}
	return w
}

// check holds the archive against what was served.
func (w *largePages) check(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	archived := make(map[string]bool)
	for _, path := range files {
		if err := eachRecord(path, func(r *warc.Record) {
			if r.Type == warc.TypeResponse {
				archived[strings.TrimPrefix(r.Get("WARC-Payload-Digest"), "sha256:")] = true
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	for sum := range w.digests {
		if !archived[sum] {
			t.Errorf("a page with digest %s was served and is not archived", sum)
		}
	}
	if len(w.digests) != 3*len(w.seeds) {
		t.Errorf("%d different pages served, want %d", len(w.digests), 3*len(w.seeds))
	}
}

// TestLargePages: a peer with little memory crawls pages that do not fit in it all at once.
//
// Slow: a real peer crawls over real connections, beside other tests.
func TestLargePages(t *testing.T) {
	t.Parallel()
	web := serveLargePages(t, 6, 4<<20)
	dir := filepath.Join(t.TempDir(), "peer")
	cfg := DefaultConfig(dir, ProfileLab)
	cfg.AllowPrivate, cfg.Delay, cfg.Network = true, 0, "test"
	cfg.FetchFrom = netip.MustParseAddr("127.0.1.1")
	cfg.Limits.Memory = 16 << 20
	p := startLogged(t, cfg, slog.New(slog.DiscardHandler))
	settle(t, []*testPeer{p})
	crawlAll(t, p, control.JobSpec{URLs: web.seeds})
	if n := p.crawl.Worker.Stats().Memory; n != 0 {
		t.Errorf("%d bytes of pages at the end", n)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	web.check(t, dir)
}

// safeBuffer takes a log in.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
