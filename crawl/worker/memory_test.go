package worker

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
)

// bigSite is a site whose every page, robots.txt aside, ends in n bytes more.
func bigSite(pages, n int) http.HandlerFunc {
	inner, big := site(pages), strings.Repeat("x", n)
	return func(rw http.ResponseWriter, r *http.Request) {
		inner(rw, r)
		if r.URL.Path != "/robots.txt" {
			fmt.Fprint(rw, big)
		}
	}
}

// manyHosts are seeds at that many hosts.
func manyHosts(n int) (seeds []string) {
	for i := range n {
		seeds = append(seeds, fmt.Sprintf("http://h%d.example/", i))
	}
	return seeds
}

// TestLargeBodies: bodies of which one alone fills the memory arrive whole. At most the bound is in
// use beside one of them, and nothing at the end.
func TestLargeBodies(t *testing.T) {
	const large, hosts, pages, bound = 900 << 10, 12, 3, 1 << 20
	crawltest.Bubble(t, func(t *testing.T) {
		var most int64
		x := newWorld(t, bigSite(pages, large), manyHosts(hosts), func(x *world) {
			x.cfg.Pages.MaxMemory = bound
			x.cfg.Pages.ClaimLinger = 50 * time.Millisecond
			inner := x.deps.Events
			x.deps.Events = func(e Event) {
				inner(e)
				x.worker.mu.Lock()
				defer x.worker.mu.Unlock()
				most = max(most, x.worker.pipe.Held())
			}
		})
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK]+got[link.OutcomeDuplicate] != hosts*pages {
			t.Errorf("outcomes %v", got)
		}
		for _, e := range x.archive.saved {
			if len(e.Body) > 0 && !bytes.HasSuffix(e.Body, bytes.Repeat([]byte("x"), large)) {
				t.Fatalf("%s came back changed: %d bytes", e.URL, len(e.Body))
			}
		}
		if most > bound+2*large { // a body without length has up to twice its size
			t.Errorf("%d bytes in use", most)
		}
		if l := x.worker.pipe; l.Held() != 0 || l.Full() {
			t.Errorf("left behind: %d bytes", l.Held())
		}
	})
}

// TestReportsAreBounded: links of outcomes that an owner is slow to acknowledge take memory as
// well, and no further page is begun while they take too much.
//
// Slow: thousands of pages with many links in virtual time.
func TestReportsAreBounded(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		const hosts, bound = 40, 2 << 20
		var most int64
		x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(rw, r)
				return
			}
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprintln(rw, r.Host)
			for i := range 300 {
				fmt.Fprintf(rw, "<a href=/%d/%s>x</a>\n", i, strings.Repeat("long", 400))
			}
		}, manyHosts(hosts), func(x *world) {
			x.cfg.Pages.MaxMemory, x.cfg.Sessions.MaxReportBytes = bound, bound
			inner := x.deps.Events
			x.deps.Events = func(e Event) {
				inner(e)
				x.worker.mu.Lock()
				defer x.worker.mu.Unlock()
				sum := int64(0)
				for _, s := range x.worker.sessions.Sessions() {
					sum += s.Bytes()
				}
				most = max(most, sum)
			}
		})
		x.owner("h0.example").pause = time.Second
		x.crawl()
		if got := x.outcomes(); got[link.OutcomeOK] != hosts {
			t.Errorf("outcomes %v, want %d ok", got, hosts)
		}
		if most == 0 || most > 3*bound {
			t.Errorf("%d bytes of outcomes were kept, at most %d are to be, and what was under way", most, bound)
		}
		if n := x.worker.telling.Load(); n != 0 {
			t.Errorf("%d bytes are counted at the end", n)
		}
	})
}

// TestDripsHoldNoMemory: sites whose large bodies drip delay the large pages of another, and not
// its small ones.
func TestDripsHoldNoMemory(t *testing.T) {
	for size, limit := range map[int]time.Duration{
		10 << 10:  time.Minute / 2,
		700 << 10: 30 * time.Minute, // each drips for a minute, one after another, before every page
	} {
		crawltest.Bubble(t, func(t *testing.T) {
			inner := bigSite(10, size)
			x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" || r.Host == "h0.example" {
					inner(rw, r)
					return
				}
				piece := bytes.Repeat([]byte("x"), 600<<10)
				rw.Write(piece)
				for range 1000 {
					if _, err := rw.Write(piece[:2<<10]); err != nil {
						return
					}
					rw.(http.Flusher).Flush()
					select {
					case <-time.After(time.Second):
					case <-r.Context().Done():
						return
					}
				}
			}, manyHosts(6), func(x *world) { x.cfg.Pages.MaxMemory = 1 << 20 })
			start := time.Now()
			if err := x.run(func() bool {
				x.mu.Lock()
				defer x.mu.Unlock()
				h := x.owners["owner"].hosts["h0.example"]
				return h != nil && len(h.done) == 10
			}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took > limit {
				t.Errorf("pages of %d bytes of the other host took %v", size, took)
			}
		})
	}
}
