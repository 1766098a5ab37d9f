package node

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// TestLinksLeftOut: links of a page beyond the bound are counted, the page says so, and so does a
// URL of which nobody has heard; in a ring as well.
func TestLinksLeftOut(t *testing.T) {
	t.Parallel()
	const more = 25
	s := serveSite(t, func(s *site, w http.ResponseWriter, _ *http.Request) {
		for i := range extract.MaxLinks + more {
			fmt.Fprintf(w, "<a href=http://%s/>x</a>", s.host(fmt.Sprint("n", i)))
		}
	})
	peers := ringOf(t, 2, func(int, *Config) {})
	wide := "http://" + s.host("wide") + "/"
	depth := uint32(0)
	crawlAll(t, peers[0], control.JobSpec{URLs: []string{wide}, Scope: []string{"*.localhost"}, MaxDepth: &depth})
	for _, p := range peers {
		w, err := p.Why(t.Context(), wide)
		if err != nil || len(w.Jobs) != 1 || w.Jobs[0].LinksLeftOut != more || !strings.Contains(w.Jobs[0].Text, "25 ") {
			t.Errorf("why of the page: %+v, %v", w, err)
		}
		h, err := p.Host(t.Context(), s.host("wide"))
		if err != nil || len(h.Jobs) != 1 || h.Jobs[0].LinksLeftOut != more {
			t.Errorf("host: %+v, %v", h, err)
		}
		status, err := p.Status(t.Context(), true)
		if err != nil || status.LinksLeftOut != more {
			t.Errorf("status: %+v, %v", status, err)
		}
	}
	until(t, "word of what was left out", func(ctx context.Context) bool {
		for _, name := range []string{"unheard", "nobody"} {
			w, err := peers[1].Why(ctx, "http://"+s.host("wide")+"/"+name)
			if err != nil || len(w.Jobs) != 1 || !strings.Contains(w.Jobs[0].Text, "25 links") {
				return false
			}
		}
		return true
	})
}

// TestLinksOfACutDocument: a document over the bound on its size gives the links of what was taken.
func TestLinksOfACutDocument(t *testing.T) {
	t.Parallel()
	const most = 64 << 10
	s := serveSite(t, func(s *site, w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			fmt.Fprint(w, "a page")
			return
		}
		fmt.Fprint(w, "<a href=/first>x</a>"+strings.Repeat("text ", most/5)+"<a href=/behind>x</a>")
	})
	peers := ringOf(t, 1, func(_ int, c *Config) { c.MaxBody = most })
	crawlAll(t, peers[0], control.JobSpec{URLs: []string{"http://" + s.host("long") + "/"}})
	if n, k := len(s.requests("/first")), len(s.requests("/behind")); n != 1 || k != 0 {
		t.Errorf("%d requests for the link at the beginning, %d for the one behind the bound", n, k)
	}
	w, err := peers[0].Why(t.Context(), "http://"+s.host("long")+"/")
	if err != nil || len(w.Jobs) != 1 || w.Jobs[0].Outcome != "too_large" {
		t.Errorf("why: %+v, %v", w, err)
	}
}

// TestSitemapOfFiftyThousand: a sitemap with the most URLs that its protocol allows is read whole,
// although it is larger than the bound on bodies, packed or not. The packed one has white space in
// it, half of what is allowed; it is one alone, as the race detector looks at each
// byte.
//
// Slow: real peers form a ring and crawl over real connections, beside other tests.
func TestSitemapOfFiftyThousand(t *testing.T) {
	t.Parallel()
	const urls = 50_000
	sitemap := func(host string) []byte {
		space := ""
		if strings.HasPrefix(host, "packed.") {
			space = strings.Repeat(" ", 400)
		}
		var b bytes.Buffer
		b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for i := range urls {
			fmt.Fprintf(&b, "<url><loc>http://%s/%s/%d</loc><lastmod>%s</lastmod></url>\n", host, strings.Repeat("p", 60), i, space)
		}
		b.WriteString("</urlset>")
		return b.Bytes()
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/robots.txt":
			fmt.Fprintf(w, "Sitemap: http://%s/map.xml", r.Host)
		case "/map.xml":
			if body := sitemap(r.Host); strings.HasPrefix(r.Host, "packed.") {
				z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
				_, _ = z.Write(body)
				_ = z.Close()
			} else {
				_, _ = w.Write(body)
			}
		}
	}))
	t.Cleanup(server.Close)
	host := func(name string) string {
		return strings.Replace(server.Listener.Addr().String(), "127.0.0.1", name+".localhost", 1)
	}
	if size := len(sitemap(host("packed"))); size < 25<<20 || size > extract.MaxSitemap {
		t.Fatalf("a sitemap of %d bytes", size)
	}
	var dir string
	peers := ringOf(t, 1, func(_ int, c *Config) { c.MaxBody, c.LeaseTTL, dir = 64<<10, 30*time.Second, c.DataDir })
	spec := control.JobSpec{Scope: []string{"*.localhost"}, MaxPagesPerHost: 2}
	for _, name := range []string{"plain", "packed"} {
		spec.URLs = append(spec.URLs, "http://"+host(name)+"/")
	}
	crawlAll(t, peers[0], spec)
	if err := peers[0].stop(); err != nil {
		t.Fatal(err)
	}
	found := outlinks(t, dir)
	for _, name := range []string{"plain", "packed"} {
		if n := found["http://"+host(name)+"/map.xml"]; n != urls {
			t.Errorf("%s: %d links of the sitemap, want %d", name, n, urls)
		}
	}
}

// outlinks counts the links that an archive names, by page; of a page that was fetched again, as it
// is after a lapse on a busy machine, those of one time.
func outlinks(t *testing.T, dir string) map[string]int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "archive", "*.warc.gz"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]int)
	for _, path := range files {
		if err := eachRecord(path, func(r *warc.Record) {
			if r.Type != warc.TypeMetadata {
				return
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			found[r.TargetURI] = max(found[r.TargetURI], bytes.Count(text, []byte("outlink: ")))
		}); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
