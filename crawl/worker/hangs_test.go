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
	"github.com/apoidea/apoidea/crawl/worker/reports"
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
		{"every other URL hangs", 40, func(n int) time.Duration { return time.Duration(n%2) * time.Hour }, 20, 20*time.Second + 19*leastHead + 5*time.Second},
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

// TestHangsAreRemembered: a lease may end between two requests that hang, and the host is no other
// for that. Of too many hosts all are forgotten.
func TestHangsAreRemembered(t *testing.T) {
	first := &reports.Item{}
	var h hangs
	h.answered(time.Second)
	m := make(hung)
	if m.leave("a", h); len(m) != 0 {
		t.Error("a host of which nothing hangs is remembered")
	}
	if owed := h.hung(20 * time.Second); owed != time.Second {
		t.Errorf("%v counts for the first that hangs, want what the last answer took", owed)
	}
	m.leave("a", h)
	if h = m.back("a"); h.headWithin(first) != headTimes*time.Second || len(m) != 0 {
		t.Errorf("the head is waited for for %v under the next lease", h.headWithin(first))
	}
	h.hung(10 * time.Second)
	if owed := h.hung(10 * time.Second); owed != 10*time.Second {
		t.Errorf("%v counts for the third in a row, want all of it", owed)
	}
	for i := range 3 * maxHung {
		m.leave(fmt.Sprint(i), h)
	}
	if len(m) > maxHung {
		t.Errorf("%d hosts are remembered", len(m))
	}
}
