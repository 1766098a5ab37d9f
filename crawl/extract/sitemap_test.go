package extract

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

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
		{"RSS with GUIDs", `<rss><channel><item><guid>https://a.example/d/a</guid></item><item><guid isPermaLink="false">https://a.example/d/no</guid></item>` +
			`<item><guid>https://a.example/d/b</guid><link>b</link></item><item><guid>17</guid></item></channel></rss>`, "a b"},
		{"Atom", `<feed><link href="no"/><entry><link href="a"/><link rel="edit" href="no"/></entry></feed>`, "a"},
		{"cut off", `<urlset><url><loc>https://a.example/d/a</loc></url><url><loc>https://a.exa`, "a"},
		{"encoding", "<?xml version='1.0' encoding='iso-8859-1'?><urlset><url><loc>\xe9</loc></url></urlset>", "%C3%A9"},
		{"UTF-16", "\xfe\xff" + wide(`<?xml version='1.0' encoding='utf-16'?><urlset><url><loc>a</loc></url></urlset>`), "a"},
		{"image by another prefix", `<urlset xmlns="S" xmlns:i="http://www.google.com/schemas/sitemap-image/1.1"><url><loc>a</loc><i:image><i:loc>no</i:loc></i:image><i:loc>no</i:loc></url></urlset>`, "a"},
		{"image in a namespace of its own by default", `<urlset xmlns="S"><url><image xmlns="http://www.google.com/schemas/sitemap-image/1.1"><loc>no</loc></image><loc>a</loc></url><url><loc>b</loc></url></urlset>`, "a b"},
		{"video by the prefix of sitemaps", `<s:urlset xmlns:s="S"><s:url xmlns:v="V"><v:video><s:loc>no</s:loc></v:video><s:loc xmlns:v="S">a</s:loc></s:url></s:urlset>`, "a"},
		{"sitemaps called image", `<image:urlset xmlns:image="http://www.sitemaps.org/schemas/sitemap/0.9"><image:url><image:loc>a</image:loc></image:url></image:urlset>`, "a"},
		{"news as the default", `<urlset xmlns="http://www.google.com/schemas/sitemap-news/0.9" xmlns:n="http://www.google.com/schemas/sitemap-news/0.9"><url><loc>a</loc><n:news><n:loc>no</n:loc></n:news></url></urlset>`, "a"},
		{"prefix of nobody", `<urlset><url><loc>a</loc><image:image><image:loc>no</image:loc></image:image><video:player_loc>no</video:player_loc></url></urlset>`, "a"},
		{"what is not ended", `<urlset><url><loc>a</loc><lastmod>2024</url><url><x><y><loc>no</loc></url><url><loc>b</loc></url></urlset>`, "a b"},
		{"versions by another prefix", `<urlset xmlns="S" xmlns:h="http://www.w3.org/1999/xhtml"><url><loc>a</loc><h:link rel="alternate" href="b"/><v:link rel="edit" href="no"/></url></urlset>`, "a b"},
		{"source of an entry", `<feed xmlns="http://www.w3.org/2005/Atom"><entry><source><link href="no"/></source><link rel="Alternate" href="a"/></entry></feed>`, "a"},
		{"Atom within RSS", `<rss xmlns:a="http://www.w3.org/2005/Atom"><channel><a:link href="no"/><item><a:link rel="self" href="no"/><a:link href="a"/><link>b</link></item></channel></rss>`, "a b"},
		{"text with CR alone", "https://a.example/d/a\rhttps://a.example/d/b\r", "a b"},
		{"text with zeros", "\x00https://a.example/d/a\x00\r\n\ufeffHTTPS://a.example/d/b\x00", "a b"},
		{"text in UTF-16 without a mark", wide("https://a.example/d/a\nhttps://a.example/d/b"), "a b"},
		{"XML in UTF-16 without a mark", wide("<urlset><url><loc>a</loc></url></urlset>"), "a"},
		{"two marks", "\ufeff\ufeff<urlset><url><loc>a</loc></url></urlset>", "a"},
		{"too many namespaces", "<urlset" + manySpaces() + "><url><loc>a</loc></url></urlset>", "a"},
		{"deep", strings.Repeat("<x>", 100_000) + "<url><loc>a</loc></url>", "a"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var x Extractor
			var page Page
			err := x.Sitemap(&page, site+"sitemap.xml", []byte(tc.body), false)
			if got := list(page); got != tc.want || err != nil && tc.name != "cut off" {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// Slow: parses sitemaps of the largest allowed size.
func TestSitemapBounds(t *testing.T) {
	var x Extractor
	var page Page
	bomb := packed(t, "<urlset><url><loc>a</loc></url>"+strings.Repeat(" ", MaxSitemap))
	if err := x.Sitemap(&page, site, []byte(bomb), false); err != nil || list(page) != "a" || page.LeftOut == 0 {
		t.Errorf("bomb of %d bytes: %v, %+v", len(bomb), err, page)
	}
	var b strings.Builder
	for i := range MaxLinks + 1 {
		b.WriteString("https://a.example/")
		b.WriteString(strings.Repeat("x", i%100))
		b.WriteString(strings.Repeat("y", i/100))
		b.WriteByte('\n')
	}
	if err := x.Sitemap(&page, site, []byte(b.String()), false); err != nil || page.LeftOut == 0 || len(page.Links) > MaxLinks {
		t.Errorf("%v, %d links", err, len(page.Links))
	}
	if err := x.Sitemap(&page, site, []byte("\x1f\x8bno gzip"), false); !errors.Is(err, ErrSitemap) {
		t.Errorf("not gzip: %v", err)
	}
}

// TestCutSitemap: of a sitemap of which only the beginning is there, packed or not, no URL is taken
// that may be half of one.
func TestCutSitemap(t *testing.T) {
	const text = "https://a.example/d/a\nhttps://a.example/d/b\nhttps://a.example/d/c"
	half := packed(t, text)
	half = half[:len(half)-8] // without its sum and length
	stored := packedAt(t, gzip.NoCompression, text)
	for _, tc := range []struct {
		name, body string
		cut        bool
		want       string
	}{
		{"whole", text, false, "a b c"},
		{"cut", text[:len(text)-1], true, "a b"},
		{"cut at a line", text[:len(text)-len("https://a.example/d/c")], true, "a b"},
		{"cut with CR alone", strings.ReplaceAll(text, "\n", "\r"), true, "a b"},
		{"cut in its only line", text[:10], true, ""},
		{"cut in UTF-16", wide(text), true, "a b"},
		{"packed", packed(t, text), false, "a b c"},
		{"packed, with zeros behind", packed(t, text) + strings.Repeat("\x00", 512), false, "a b c"},
		{"packed, broken off", half, false, "a b"},
		{"packed, cut", stored[:len(stored)-10], true, "a b"},
		{"XML, cut", "<urlset><url><loc>a</loc></url><url><loc>b/ha", true, "a"},
	} {
		var x Extractor
		var page Page
		if err := x.Sitemap(&page, site+"sitemap.txt", []byte(tc.body), tc.cut); err != nil && !errors.Is(err, ErrSitemap) || list(page) != tc.want {
			t.Errorf("%s: %q, %v; want %q", tc.name, list(page), err, tc.want)
		}
	}
}

// TestSitemapLinks: the most URLs that the protocol allows a sitemap, of a usual length, all count;
// that there was more is told.
//
// Slow: unpacks and parses 50 MB sitemaps.
func TestSitemapLinks(t *testing.T) {
	for _, tc := range []struct {
		name    string
		n, tail int
		leftOut int
	}{{"as many as are allowed", 50_000, 0, 0}, {"one more", 50_001, 0, 1}, {"more bytes than are allowed", 10, MaxSitemap, 1}} {
		var b strings.Builder
		b.WriteString("<urlset>")
		for i := range tc.n {
			fmt.Fprintf(&b, "<url><loc>https://a.example/%s/%d</loc></url>\n", strings.Repeat("p", 120), i)
		}
		b.WriteString(strings.Repeat(" ", tc.tail) + "</urlset>")
		for form, body := range map[string]string{"plain": b.String(), "packed": packed(t, b.String())} {
			var x Extractor
			var page Page
			err := x.Sitemap(&page, site+"sitemap.xml", []byte(body), false)
			if err != nil || len(page.Links) != min(tc.n, 50_000) || page.LeftOut != tc.leftOut {
				t.Errorf("%s, %s: %d links, %d left out, %v", tc.name, form, len(page.Links), page.LeftOut, err)
			}
		}
	}
}

func packed(t *testing.T, text string) string {
	t.Helper()
	return packedAt(t, gzip.DefaultCompression, text)
}

func packedAt(t *testing.T, level int, text string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func manySpaces() string {
	var b strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&b, " xmlns:p%d='u'", i)
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

// TestSitemapFetchedAsPage recognizes sitemaps and feeds by type and first element.
func TestSitemapFetchedAsPage(t *testing.T) {
	const urlset = `<!-- made by a tool --><!DOCTYPE urlset><urlset xmlns="S"><url><loc>a</loc></url></urlset>`
	const plain = "https://a.example/d/a\r\n\r\nhttps://a.example/d/b\n"
	long := plain + strings.Repeat("https://a.example/d/a\n", sniffed)
	for _, tc := range []struct {
		name, kind, body, want string
		list                   bool
	}{
		{"sitemap", "text/xml; charset=utf-8", urlset, "a", false},
		{"behind a declaration", "application/xml", `<?xml version="1.0"?>` + urlset, "a", false},
		{"in UTF-16", "application/xml", "\xfe\xff" + wide(urlset), "a", false},
		{"index", "application/xml", `<s:sitemapindex xmlns:s="S"><s:sitemap><s:loc>a</s:loc></s:sitemap></s:sitemapindex>`, "*a", false},
		{"RSS", "application/rss+xml", `<rss><channel><item><link>a</link></item></channel></rss>`, "a", false},
		{"RSS 1.0", "application/rdf+xml", `<rdf:RDF><item><link>a</link></item></rdf:RDF>`, "a", false},
		{"Atom", "application/atom+xml", `<feed><entry><link href="a"/></entry></feed>`, "a", false},
		{"packed", "application/x-gzip", packed(t, urlset), "a", false},
		{"packed, of another type", "application/pdf", packed(t, urlset), "", false},
		{"packed, broken", "application/gzip", "\x1f\x8bno gzip", "", false},
		{"XHTML", "application/xhtml+xml", `<html xmlns="X"><a href="a">x</a><url><loc>b</loc></url></html>`, "a", false},
		{"XML of another kind", "text/xml", `<html><url><loc>no</loc></url></html>`, "", false},
		{"sitemap as HTML", "text/html", urlset, "a", false},
		{"sitemap as HTML, behind a declaration", "text/html; charset=utf-8", `<?xml version="1.0"?>` + urlset, "a", false},
		{"index as HTML", "text/html", `<sitemapindex><sitemap><loc>a</loc></sitemap></sitemapindex>`, "*a", false},
		{"RSS as HTML", "text/html", `<rss><channel><item><link>a</link></item></channel></rss>`, "a", false},
		{"HTML with an element of a sitemap", "text/html", `<p>x</p><urlset><url><loc>no</loc></url></urlset>`, "", false},
		{"sitemap of no type", "", urlset, "", false},
		{"plain text", "text/plain", plain, "", false},
		{"sitemap as plain text", "text/plain", urlset, "", false},
		{"sitemap as plain text, of a seed", "text/plain", urlset, "a", true},
		{"list", "text/plain; charset=utf-8", plain, "a b", true},
		{"list, packed", "application/gzip", packed(t, plain), "a b", true},
		{"long list", "text/plain", long, "a b", true},
		{"list and other text", "text/plain", "see\n" + plain, "", true},
		{"empty list", "text/plain", "\n\n", "", true},
		{"list of another type", "application/xml", plain, "", true},
	} {
		var x Extractor
		var page Page
		header := http.Header{"Content-Type": {tc.kind}}
		if err := x.Document(&page, site+"sitemap", header, []byte(tc.body), Options{Sitemaps: true, URLList: tc.list}); list(page) != tc.want {
			t.Errorf("%s: got %q, %v; want %q", tc.name, list(page), err, tc.want)
		}
		if err := x.Document(&page, site+"sitemap", header, []byte(tc.body), Options{}); err != nil || tc.name != "XHTML" && len(page.Links) > 0 {
			t.Errorf("%s: without sitemaps %q, %v", tc.name, list(page), err)
		}
	}
	var x Extractor
	var page Page
	header := http.Header{"Content-Type": {"text/xml"}, "X-Robots-Tag": {"nofollow"}, "Link": {"<b>; rel=next"}}
	if err := x.Document(&page, site+"sitemap", header, []byte(urlset), Options{Sitemaps: true}); err != nil || list(page) != "!b !a" {
		t.Errorf("with headers: %q, %v", list(page), err)
	}
	header = http.Header{"Content-Type": {"text/plain"}}
	if err := x.Document(&page, site, header, []byte(plain+"https://a.example/d/ha"), Options{Sitemaps: true, URLList: true, Cut: true}); err != nil || list(page) != "a b" {
		t.Errorf("cut list: %q, %v", list(page), err)
	}
}

func TestSitemapsDateTheirURLs(t *testing.T) {
	day := func(text string) uint32 {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return uint32(at.Unix())
	}
	for name, row := range map[string]struct {
		body string
		want []uint32
		feed bool
	}{
		"sitemap": {
			`<urlset><url><loc>/a</loc><lastmod>2024-05-06</lastmod></url><url><lastmod>2024-05-06T07:08:09+02:00</lastmod><loc>/b</loc></url><url><loc>/c</loc></url></urlset>`,
			[]uint32{day("2024-05-06T00:00:00Z"), day("2024-05-06T05:08:09Z"), 0},
			false,
		},
		"index": {`<sitemapindex><sitemap><loc>/a</loc><lastmod> 2024-05-06T07:08Z </lastmod></sitemap></sitemapindex>`, []uint32{day("2024-05-06T07:08:00Z")}, false},
		"RSS":   {`<rss><channel><pubDate>Mon, 06 May 2024 01:02:03 GMT</pubDate><item><link>/a</link><pubDate>Mon, 06 May 2024 07:08:09 +0000</pubDate></item></channel></rss>`, []uint32{day("2024-05-06T07:08:09Z")}, true},
		"Atom":  {`<feed><entry><link href="/a"/><published>2020-01-01T00:00:00Z</published><updated>2024-05-06T07:08:09Z</updated></entry></feed>`, []uint32{day("2024-05-06T07:08:09Z")}, true},
		"no date": {
			`<urlset><url><loc>/a</loc><lastmod>yesterday</lastmod></url><url><loc>/b</loc><lastmod>9999-99-99</lastmod></url><url><loc>/c</loc><lastmod>0001-01-01</lastmod></url></urlset>`,
			[]uint32{0, 0, 0},
			false,
		},
	} {
		var x Extractor
		var page Page
		if err := x.Sitemap(&page, "http://a.example/s", []byte(row.body), false); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var got []uint32
		for _, l := range page.Links {
			got = append(got, l.Modified)
		}
		if !slices.Equal(got, row.want) || page.Feed != row.feed {
			t.Errorf("%s: %v, feed %v; want %v, %v", name, got, page.Feed, row.want, row.feed)
		}
	}
}
