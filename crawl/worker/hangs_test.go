package worker

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestHangsAreNotWaitedFor: once a request to a host has hung, the next ones that hang keep it for
// a short time. What is merely slow loses nothing by that: neither a site that always is, nor one
// of which a page hangs.
func TestHangsAreNotWaitedFor(t *testing.T) {
	for _, row := range []struct {
		name   string
		pages  int
		takes  func(n int) time.Duration // a page until its head is there
		ok     int
		within time.Duration // the last page is asked for first
	}{
		{"every other URL hangs", 40, func(n int) time.Duration { return time.Duration(n%2) * time.Hour }, 20, 20*time.Second + 19*2*time.Second + 5*time.Second},
		{"all pages are slow", 20, func(int) time.Duration { return 8 * time.Second }, 20, 20*8*time.Second + 5*time.Second},
		{"slow pages after one that hangs", 20, func(n int) time.Duration {
			if n == 1 {
				return time.Hour
			}
			return 8 * time.Second
		}, 19, 19*8*time.Second + 25*time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				var urls []string
				begun := time.Now()
				met := make(map[int]time.Duration) // when a page was first asked for
				var mu sync.Mutex
				for n := range row.pages {
					urls = append(urls, fmt.Sprintf("http://a.example/%d", n))
				}
				x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
					n := 0
					if _, err := fmt.Sscanf(strings.TrimPrefix(r.URL.Path, "/"), "%d", &n); err != nil {
						http.NotFound(rw, r)
						return
					}
					mu.Lock()
					if _, again := met[n]; !again {
						met[n] = time.Since(begun)
					}
					mu.Unlock()
					select {
					case <-time.After(row.takes(n)):
						rw.Header().Set("Content-Type", "text/html")
						fmt.Fprint(rw, r.URL.Path)
					case <-r.Context().Done():
					}
				}, urls)
				x.crawl()
				if got := x.outcomes(); got[link.OutcomeOK] != row.ok || got[link.OutcomeTimeout] != row.pages-row.ok {
					t.Errorf("outcomes %v, want %d pages", got, row.ok)
				}
				if last := slices.Max(slices.Collect(maps.Values(met))); last > row.within {
					t.Errorf("the last page was asked for after %v, want %v at most", last, row.within)
				}
			})
		})
	}
}
