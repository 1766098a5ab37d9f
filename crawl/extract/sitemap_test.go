package extract

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func TestSitemap(t *testing.T) {
	const urlset = `<?xml version="1.0" encoding="UTF-8"?>
<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1">
<url><loc> https://a.example/d/a?x=1&amp;y=2 </loc><lastmod>2024-01-01</lastmod><image:image><image:loc>no</image:loc></image:image></url>
<url><loc><![CDATA[https://a.example/d/b]]></loc><xhtml:link rel="alternate" hreflang="de" href="https://a.example/d/c"/></url>
<url><loc>mailto:no</loc></url><url><loc/></url></urlset>`
	for _, tc := range []struct{ name, body, want string }{
		{"url set", urlset, "a?x=1&y=2 b c"},
		{"packed", packed(t, urlset), "a?x=1&y=2 b c"},
		{"index", `<sitemapindex><sitemap><loc>https://a.example/d/a.xml.gz</loc></sitemap></sitemapindex>`, "*a.xml.gz"},
		{"prefix of its own", `<s:urlset><s:url><s:loc>https://a.example/d/a</s:loc></s:url></s:urlset>`, "a"},
		{"text", "\xef\xbb\xbfhttps://a.example/d/a\r\n\r\nnot a URL\n https://a.example/d/b \n", "a b"},
		{"RSS", `<rss><channel><link>no</link><item><title>x</title><link>https://a.example/d/a</link></item></channel></rss>`, "a"},
		{"Atom", `<feed><link href="no"/><entry><link href="a"/><link rel="edit" href="no"/></entry></feed>`, "a"},
		{"cut off", `<urlset><url><loc>https://a.example/d/a</loc></url><url><loc>https://a.exa`, "a"},
		{"encoding", "<?xml version='1.0' encoding='iso-8859-1'?><urlset><url><loc>\xe9</loc></url></urlset>", "%C3%A9"},
		{"UTF-16", "\xfe\xff" + wide(`<?xml version='1.0' encoding='utf-16'?><urlset><url><loc>a</loc></url></urlset>`), "a"},
		{"deep", strings.Repeat("<x>", 100_000) + "<url><loc>a</loc></url>", "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var x Extractor
			var page Page
			err := x.Sitemap(&page, site+"sitemap.xml", []byte(tc.body))
			if got := list(page); got != tc.want || err != nil && tc.name != "cut off" {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestSitemapBounds(t *testing.T) {
	var x Extractor
	var page Page
	bomb := packed(t, "<urlset><url><loc>a</loc></url>"+strings.Repeat(" ", MaxSitemap))
	if err := x.Sitemap(&page, site, []byte(bomb)); err != nil || list(page) != "a" || !page.Truncated {
		t.Errorf("bomb of %d bytes: %v, %+v", len(bomb), err, page)
	}
	var b strings.Builder
	for i := range MaxLinks + 1 {
		b.WriteString("https://a.example/")
		b.WriteString(strings.Repeat("x", i%100))
		b.WriteString(strings.Repeat("y", i/100))
		b.WriteByte('\n')
	}
	if err := x.Sitemap(&page, site, []byte(b.String())); err != nil || !page.Truncated || len(page.Links) > MaxLinks {
		t.Errorf("%v, %d links", err, len(page.Links))
	}
	if err := x.Sitemap(&page, site, []byte("\x1f\x8bno gzip")); !errors.Is(err, ErrSitemap) {
		t.Errorf("not gzip: %v", err)
	}
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// wide returns ASCII text in UTF-16BE.
func wide(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteByte(0)
		b.WriteByte(c)
	}
	return b.String()
}
