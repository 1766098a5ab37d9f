package worker

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/domain"
	"github.com/apoidea/apoidea/crawl/frontier"
	"github.com/apoidea/apoidea/crawl/link"
)

// TestSlowHostsHaveAPart: a site is crawled in less than twice its time though hundreds of slow
// hosts want the fetchers as well, be they of one domain or of many, slow with pages or with
// robots.txt, and also where a peer is cut to a few fetchers. Slow hosts are crawled all the same,
// and hundreds of fast ones of one domain are no slower than as many of any.
//
// Slow: 16,000 requests take several seconds of processor time, as a quarter of the fetchers is
// crowded only by hundreds of hosts. No part of it waits: time is virtual.
func TestSlowHostsHaveAPart(t *testing.T) {
	unraced(t)
	const sitePages, others, each = 300, 200, 4
	// crawl returns how long the site took from its first request on, as nobody can know before
	// that it is none of the others, and how long all did.
	crawl := func(t *testing.T, fetchers int, name string, takes func(path string) time.Duration) (site, all time.Duration) {
		crawltest.Bubble(t, func(t *testing.T) {
			var seeds []string
			for i := range sitePages {
				seeds = append(seeds, fmt.Sprintf("http://www.good.test/%d", i))
			}
			if name != "" {
				for i := range others * each {
					seeds = append(seeds, fmt.Sprintf("http://"+name+"/%d", i%others, i/others))
				}
			}
			begun := time.Now()
			var mu sync.Mutex
			left, first := sitePages, time.Time{}
			x := newWorld(t, func(rw http.ResponseWriter, r *http.Request) {
				good := strings.HasPrefix(r.Host, "www.good.")
				wait := 10 * time.Millisecond
				if !good {
					wait = takes(r.URL.Path)
				}
				mu.Lock()
				if good && first.IsZero() {
					first = time.Now()
				}
				mu.Unlock()
				time.Sleep(wait)
				if r.URL.Path == "/robots.txt" {
					http.NotFound(rw, r)
					return
				}
				mu.Lock()
				if good {
					if left--; left == 0 {
						site = time.Since(first)
					}
				}
				mu.Unlock()
				rw.Header().Set("Content-Type", "text/html")
				fmt.Fprint(rw, r.Host+r.URL.Path)
			}, seeds, func(x *world) {
				x.cfg.Fetchers = fetchers
				x.cfg.Politeness = frontier.Config{Delay: 20 * time.Millisecond, Factor: -1, Group: domain.Of}
			})
			x.crawl()
			all = time.Since(begun)
			want := sitePages
			if name != "" {
				want += others * each
			}
			if got := x.outcomes(); got[link.OutcomeOK] != want {
				t.Errorf("outcomes %v, want %d pages", got, want)
			}
		})
		return site, all
	}
	slowly := func(string) time.Duration { return 4 * time.Second }
	robots := func(path string) time.Duration {
		if path == "/robots.txt" {
			return 15 * time.Second
		}
		return 10 * time.Millisecond // hosts that answer in half a second are prompt, and 200 of them would have the fetchers by right
	}
	sizes := []int{8, 32}
	if os.Getenv("APOIDEA_FULL") == "" {
		sizes = sizes[:1]
	}
	for _, fetchers := range sizes {
		alone, _ := crawl(t, fetchers, "", nil)
		for _, row := range []struct {
			what, name string
			takes      func(path string) time.Duration
		}{
			{"a domain is slow", "n%d.slow.test", slowly},
			{"many domains are slow", "www.slow%d.test", slowly},
			{"robots.txt of a domain is slow", "n%d.slow.test", robots},
			{"robots.txt of many domains is slow", "www.slow%d.test", robots},
		} {
			t.Run(fmt.Sprintf("%s, %d fetchers", row.what, fetchers), func(t *testing.T) {
				site, all := crawl(t, fetchers, row.name, row.takes)
				t.Logf("%v alone, %v beside them; all after %v", alone, site, all)
				if site > 2*alone {
					t.Errorf("%v beside them, %v alone", site, alone)
				}
			})
		}
		t.Run(fmt.Sprintf("a domain is fast, %d fetchers", fetchers), func(t *testing.T) {
			fast := func(string) time.Duration { return 100 * time.Millisecond }
			_, one := crawl(t, fetchers, "n%d.fast.test", fast)
			_, many := crawl(t, fetchers, "www.fast%d.test", fast)
			t.Logf("one domain takes %v, many take %v", one, many)
			if one > many*21/20 {
				t.Errorf("one domain takes %v, many take %v", one, many)
			}
		})
	}
}
