// Command colly is the yardstick: colly v2 crawling the hosts of the given URLs as fast as it can
// be made to. It stores nothing, obeys nothing, drops duplicate links before Visit, and prints how
// many pages answered with 200.
//
//	colly URL...
package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/gocolly/colly/v2"
)

// parallel is how many requests are made at once.
const parallel = 4

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "colly:", err)
		os.Exit(1)
	}
}

// crawl is what the callbacks of one crawl share.
type crawl struct {
	hosts map[string]bool
	c     *colly.Collector
	pages atomic.Int64

	mu   sync.Mutex // guards seen
	seen map[string]bool
}

func run(seeds []string) error {
	// At Go's default the collector takes up to a quarter of the CPU of a colly crawl. Memory is no
	// concern here, so it gets more of it.
	debug.SetGCPercent(400)
	k := &crawl{hosts: map[string]bool{}, seen: map[string]bool{}}
	k.c = colly.NewCollector(colly.Async(true), colly.AllowURLRevisit(), colly.MaxBodySize(0))
	k.c.WithTransport(transport())
	if err := k.c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: parallel}); err != nil {
		return err
	}
	k.c.OnResponse(func(*colly.Response) { k.pages.Add(1) })
	k.c.OnHTML("html", k.follow)
	for _, s := range seeds {
		u, err := url.Parse(s)
		if err != nil {
			return err
		}
		k.hosts[u.Host] = true
	}
	for _, s := range seeds {
		k.visit(s)
	}
	k.c.Wait()
	fmt.Println(k.pages.Load(), "pages")
	return nil
}

// follow visits the links of a page: each raw href once a page, each URL once a crawl.
func (k *crawl) follow(e *colly.HTMLElement) {
	seen := map[string]bool{}
	e.DOM.Find("a[href], area[href], link[href], iframe[src], frame[src]").Each(func(_ int, s *goquery.Selection) {
		n := s.Nodes[0]
		var href string
		for _, a := range n.Attr {
			switch {
			case a.Key == "href" || a.Key == "src":
				href, _, _ = strings.Cut(a.Val, "#")
			case a.Key == "rel" && noPage(n.Data, a.Val):
				return
			}
		}
		if href == "" || seen[href] {
			return
		}
		seen[href] = true
		if u := e.Request.AbsoluteURL(href); u != "" {
			k.visit(u)
		}
	})
}

// noPage reports whether a link leads to nothing that a crawler fetches as a page: it is marked
// nofollow, or a link element's relation names what a page needs to be shown.
func noPage(element, rel string) bool {
	return slices.ContainsFunc(strings.Fields(strings.ToLower(rel)), func(r string) bool {
		switch r {
		case "nofollow":
			return true
		case "stylesheet", "icon", "apple-touch-icon", "mask-icon", "preload", "modulepreload", "prefetch", "manifest", "dns-prefetch", "preconnect":
			return element == "link"
		}
		return false
	})
}

func (k *crawl) visit(raw string) {
	u, err := url.Parse(raw)
	if err != nil || !k.hosts[u.Host] {
		return
	}
	k.mu.Lock()
	known := k.seen[raw]
	k.seen[raw] = true
	k.mu.Unlock()
	if !known {
		_ = k.c.Visit(raw) // what fails is not counted as a page
	}
}

// transport keeps connections, and takes names under .localhost for loopback (RFC 6761, section
// 6.3).
func transport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Transport{
		MaxIdleConnsPerHost: parallel,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			host, port, err := net.SplitHostPort(addr)
			if err == nil && strings.HasSuffix(host, ".localhost") {
				addr = net.JoinHostPort("127.0.0.1", port)
			}
			return dialer.DialContext(ctx, network, addr)
		},
	}
}
