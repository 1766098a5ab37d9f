package extract

import (
	"fmt"
	"strings"
	"testing"
)

// TestSitemapsWithFaults: what stands behind a fault of a sitemap or feed is read; the text with
// the fault in it is nobody's URL.
func TestSitemapsWithFaults(t *testing.T) {
	const set = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>a</loc></url>`
	for _, fault := range []string{
		"<!-- of May -- and June -->", "<!---------->", "<!-- < <url><loc>no</loc></url> -- -->", "\x00", "\x0b", "\x1b[31m", "\xe9", "&#0;", "&#x1b;", "\ufffe", "<", "a < b", "]]>", "</>", "<>", "<1>", "<a/ >",
		"<a:b:c>", `<a b="<">`, "<a b=\"\x00\">", "<a<b>", `<?xml version="1.1"?>`, `<?xml version="1.0" encoding="nonsense"?>`, "<url><loc>no\xe9</loc></url>", "<url><loc>no\x0b</loc></url>",
		"<![CDATA[<url><loc>no</loc></url>\x00]]>",
	} {
		var x Extractor
		var page Page
		err := x.Sitemap(&page, site+"sitemap.xml", []byte(set+fault+"<url><loc>b</loc></url></urlset>"), false)
		if got := list(page); got != "a b" {
			t.Errorf("%q: %q, %v", fault, got, err)
		}
	}
	for _, declaration := range []string{`<?xml version="1.1"?>`, `<?xml version="1.0" encoding="nonsense"?>`, `<?xml version="1.0" encoding="hz-gb-2312"?>`, `<?xml version="1.0" encoding="iso-2022-jp"?>` + "\x1b$B\x1b(B"} {
		var x Extractor
		var page Page
		if err := x.Sitemap(&page, site+"sitemap.xml", []byte(declaration+set+"</urlset>"), false); list(page) != "a" {
			t.Errorf("%q: %q, %v", declaration, list(page), err)
		}
	}
}

// TestSitemapWithOpenQuote checks that entries after a tag with an unclosed quote are found, and
// that a token of megabytes does not end the file.
func TestSitemapWithOpenQuote(t *testing.T) {
	for _, between := range []string{"<a b='c>", "<p>" + strings.Repeat("x", 3<<20) + "</p>", "<![CDATA[" + strings.Repeat("x", 3<<20) + "]]>"} {
		var x Extractor
		var page Page
		body := "<urlset><url><loc>a</loc></url>" + between + "<url><loc>\u00a0b\u00a0</loc></url></urlset>"
		if err := x.Sitemap(&page, site+"sitemap.xml", []byte(body), false); list(page) != "a b" || err != nil {
			t.Errorf("%.20q: %q, %v", between, list(page), err)
		}
	}
}

// TestSitemapsOfFaults: a sitemap that has nothing but faults is read to a bound.
func TestSitemapsOfFaults(t *testing.T) {
	for _, fault := range []string{"<", "<!--", "<![CDATA[\x00", "\x00", "<a b='", "&", "<!-- -- -->"} {
		var x Extractor
		var page Page
		body := "<urlset><url><loc>a</loc></url>" + strings.Repeat(fault, 4<<20/len(fault))
		_ = x.Sitemap(&page, site+"sitemap.xml", []byte(body), false)
		if got := list(page); got != "a" {
			t.Errorf("%q: %q", fault, got)
		}
	}
}

// BenchmarkSitemap reads the entries of a sitemap, BenchmarkSitemap/faults one with a fault in
// each.
func BenchmarkSitemap(b *testing.B) {
	for name, between := range map[string]string{"sound": "", "faults": "<!-- -- -->"} {
		var text strings.Builder
		text.WriteString("<urlset>")
		for i := range 5000 {
			fmt.Fprintf(&text, "<url><loc>https://a.example/%d</loc></url>%s\n", i, between)
		}
		b.Run(name, func(b *testing.B) {
			var x Extractor
			var page Page
			b.SetBytes(int64(text.Len()))
			b.ReportAllocs()
			for b.Loop() {
				_ = x.Sitemap(&page, site, []byte(text.String()), false)
			}
		})
	}
}
