package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/crawl/worker/pages"
)

// rawSite answers paths with bytes as they are, and closes the connection; robots.txt is not found
// unless it is one of them, and everything else is an empty page.
func rawSite(answers map[string]string) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		raw, ok := answers[r.URL.Path]
		switch {
		case ok:
			if c, _, err := http.NewResponseController(rw).Hijack(); err == nil {
				_, _ = c.Write([]byte(raw))
				c.Close()
			}
		case r.URL.Path == "/robots.txt":
			http.NotFound(rw, r)
		default:
			rw.Header().Set("Content-Type", "text/html")
		}
	}
}

// record is the record of a URL, nil without one.
func (x *world) record(url string) *pages.Exchange {
	for i := range x.archive.saved {
		if e := &x.archive.saved[i]; e.URL == url {
			return e
		}
	}
	return nil
}

// TestSharedResponses crawls pages whose answers have the small defects of real servers.
func TestSharedResponses(t *testing.T) {
	var file struct {
		Cases []struct {
			Name   string
			Raw    []byte `json:"raw_b64"`
			Link   string
			Note   string
			Expect struct {
				Archived  bool
				Truncated string
				Links     *bool
			}
		}
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "..", "..", "..", "shared", "testdata", "web", "responses.json"))
	if os.IsNotExist(err) {
		t.Skip("shared test data not found: testdata/web/responses.json")
	}
	if err = errors.Join(err, json.Unmarshal(raw, &file)); err != nil {
		t.Fatal(err)
	}
	for _, c := range file.Cases {
		t.Run(c.Name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				const site = "http://a.example"
				url := site + "/c/" + c.Name
				x := newWorld(t, rawSite(map[string]string{"/c/" + c.Name: string(c.Raw)}), []string{url})
				x.crawl()
				e := x.record(url)
				if (e != nil) != c.Expect.Archived {
					t.Fatalf("archived %t, want %t (%s): %s", e != nil, c.Expect.Archived, c.Note, x.done(url).GetDetail())
				}
				if e != nil && string(e.Truncated) != c.Expect.Truncated {
					t.Errorf("truncated %q, want %q (%s)", e.Truncated, c.Expect.Truncated, c.Note)
				}
				if followed := x.asked[site+c.Link] > 0; c.Expect.Links != nil && followed != *c.Expect.Links {
					t.Errorf("link followed: %t, want %t (%s)", followed, *c.Expect.Links, c.Note)
				}
			})
		})
	}
}

// TestBrokenRobots: of an error status the body does not matter; of a file that breaks off the
// whole lines hold, once it has been asked for again.
func TestBrokenRobots(t *testing.T) {
	const (
		head   = "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"
		rules  = "User-agent: *\nDisallow: /no\n"
		binary = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\x00\x01\n\x02\n"
	)
	for _, tt := range []struct {
		name, robots string
		want         link.Outcome // of /no
		asked        int          // for robots.txt, at least
	}{
		{"404 whose gzip is none", "HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\n\r\nnot found", link.OutcomeOK, 1},
		{"404 that is short", "HTTP/1.1 404 Not Found\r\nContent-Length: 99\r\n\r\nnot found", link.OutcomeOK, 1},
		{"403 without its body", "HTTP/1.1 403 Forbidden\r\nContent-Length: 99\r\n\r\n", link.OutcomeOK, 1},
		{"410 with bad chunks", "HTTP/1.1 410 Gone\r\nTransfer-Encoding: chunked\r\n\r\nnot chunked", link.OutcomeOK, 1},
		{"500 that is short", "HTTP/1.1 500 Oops\r\nContent-Length: 99\r\n\r\n", link.OutcomeRobotsUnreachable, 1},
		{"429 that is short", "HTTP/1.1 429 Slow\r\nContent-Length: 99\r\n\r\n", link.OutcomeRobotsUnreachable, 1},
		{"whole lines", head + rules + "Allow: /no", link.OutcomeRobotsDenied, 3},
		{"no whole line", head + "User-agent: *", link.OutcomeRobotsUnreachable, 3},
		{"nothing", head, link.OutcomeRobotsUnreachable, 1},
		{"plain text called gzip", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + rules, link.OutcomeRobotsDenied, 1},
		{"other bytes called gzip", binary, link.OutcomeRobotsUnreachable, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			crawltest.Bubble(t, func(t *testing.T) {
				const url = "http://a.example/no"
				x := newWorld(t, rawSite(map[string]string{"/robots.txt": tt.robots}), []string{url})
				x.crawl()
				if got := link.Outcome(x.done(url).GetOutcome()); got != tt.want {
					t.Errorf("outcome %s, want %s: %s", got, tt.want, x.done(url).GetDetail())
				}
				if n := x.asked["http://a.example/robots.txt"]; n < tt.asked || tt.want != link.OutcomeRobotsUnreachable && n > tt.asked {
					t.Errorf("robots.txt was asked for %d times, want %d", n, tt.asked)
				}
			})
		})
	}
}

// TestRedirectInLatin1 asks for the bytes of a Location that is not UTF-8.
func TestRedirectInLatin1(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		raw := "HTTP/1.1 301 Moved\r\nLocation: /caf\xe9?\xfc\r\nContent-Length: 0\r\n\r\n"
		x := newWorld(t, rawSite(map[string]string{"/": raw}), []string{"http://a.example/"})
		x.crawl()
		if x.asked["http://a.example/caf%E9?%FC"] != 1 {
			t.Errorf("asked for %v", x.asked)
		}
	})
}

// TestRedirectChains follows twenty redirects, and reports the one that leads on.
func TestRedirectChains(t *testing.T) {
	for _, tt := range []struct {
		length int
		want   link.Outcome // of the last URL that is asked for
	}{{wire.MaxRedirects, link.OutcomeOK}, {wire.MaxRedirects + 1, link.OutcomeTooManyRedirects}} {
		crawltest.Bubble(t, func(t *testing.T) {
			answers := make(map[string]string)
			for i := range tt.length {
				answers[fmt.Sprintf("/%d", i)] = fmt.Sprintf("HTTP/1.1 302 Found\r\nLocation: /%d\r\nContent-Length: 0\r\n\r\n", i+1)
			}
			x := newWorld(t, rawSite(answers), []string{"http://a.example/0"})
			x.crawl()
			last := fmt.Sprintf("http://a.example/%d", wire.MaxRedirects)
			if got := link.Outcome(x.done(last).GetOutcome()); got != tt.want || x.record(last) == nil {
				t.Errorf("%d redirects: outcome %s, want %s", tt.length, got, tt.want)
			}
			if n := x.worker.Stats().Errors; n != int64(tt.length-wire.MaxRedirects) || x.asked[fmt.Sprintf("http://a.example/%d", wire.MaxRedirects+1)] > 0 {
				t.Errorf("%d redirects: %d errors, asked for %v", tt.length, n, x.asked)
			}
		})
	}
}

// TestSitemapsAsPages follows sitemaps and feeds that are seeds or linked, unless the job has no
// sitemaps; a plain list of URLs only as a seed.
func TestSitemapsAsPages(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: "
	const xml, rss, text = head + "text/xml\r\n\r\n", head + "application/rss+xml\r\n\r\n", head + "text/plain\r\n\r\n"
	site := map[string]string{
		"/index.xml": xml + "<sitemapindex><sitemap><loc>http://a.example/part.xml</loc></sitemap></sitemapindex>",
		"/part.xml":  xml + "<urlset><url><loc>http://a.example/listed</loc></url></urlset>",
		"/list.txt":  text + "http://a.example/lines\n",
		"/page":      head + `text/html` + "\r\n\r\n" + `<link rel=alternate href=/feed><link rel=sitemap href=/part.xml><a href=/list.txt>list</a>`,
		"/feed":      rss + "<rss><item><link>http://a.example/item</link></item></rss>",
	}
	for _, tt := range []struct {
		seed, want, never string
		none              bool
	}{
		{"/index.xml", "/listed", "", false},
		{"/list.txt", "/lines", "", false},
		{"/page", "/item", "/lines", false},
		{"/page", "/listed", "/lines", false},
		{"/part.xml", "/part.xml", "/listed", true},
		{"/page", "/feed", "/item", true},
	} {
		crawltest.Bubble(t, func(t *testing.T) {
			x := newWorld(t, rawSite(site), []string{"http://a.example" + tt.seed}, withSpec(func(m *wire.JobSpec) { m.NoSitemaps = tt.none }))
			x.crawl()
			if x.asked["http://a.example"+tt.want] != 1 || x.asked["http://a.example"+tt.never] > 0 {
				t.Errorf("%s: asked for %v, want %s and not %q", tt.seed, x.asked, tt.want, tt.never)
			}
		})
	}
}

// TestRequisites fetches what pages and style sheets need, on any host, under the rules of that
// host, and neither the sitemaps of its robots.txt nor what a page fetched as a requisite links to.
func TestRequisites(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Type: "
	const html, css = head + "text/html\r\n\r\n", head + "text/css\r\n\r\n"
	site := map[string]string{
		"/":           html + `<link rel=stylesheet href=//b.example/s.css><img srcset="//c.example/x 1x, /y 2x" src=//b.example/no/z><p style="b:url(/p)"><a href=//b.example/s.css?page>no</a>`,
		"/s.css":      css + `@import "t.css"; p{b:url(//d.example/font)}`,
		"/t.css":      css + `p{b:url(u)}`,
		"/x":          html + `<a href=/linked>`,
		"/robots.txt": head + "text/plain\r\n\r\nUser-agent: *\nDisallow: /no\nSitemap: http://b.example/map.xml\n",
	}
	crawltest.Bubble(t, func(t *testing.T) {
		x := newWorld(t, rawSite(site), []string{"http://a.example/"}, withSpec(func(m *wire.JobSpec) { m.Requisites = true }))
		x.crawl()
		for _, url := range []string{"b.example/s.css", "b.example/t.css", "b.example/u", "c.example/x", "d.example/font", "a.example/y", "a.example/p", "b.example/robots.txt"} {
			if x.asked["http://"+url] != 1 {
				t.Errorf("%s was asked for %d times", url, x.asked["http://"+url])
			}
		}
		for _, url := range []string{"b.example/no/z", "b.example/map.xml", "c.example/linked", "b.example/s.css?page"} {
			if x.asked["http://"+url] != 0 {
				t.Errorf("%s was asked for", url)
			}
		}
	})
}
