package extract

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/crawl/link"
)

// What the scanner and the judge must agree on: the hrefs and what is said of them, decoded and in
// order.
type foundHref struct {
	url      string
	kind     link.Kind
	nofollow bool
}

var fuzzOptions = Options{Requisites: true, Agent: "apoidea"}

// scanned runs the scanner over a UTF-8 document.
func scanned(body []byte) ([]foundHref, Page) {
	var x Extractor
	var page Page
	w := &walk{x: &x, page: &page, opt: fuzzOptions, charset: lookup("utf-8"), framesetOK: true}
	x.scan.run(body, w)
	return collected(&x, w), page
}

// judged runs the same elements through golang.org/x/net/html's tokenizer. It is the judge of what
// is a tag, an attribute and its value; what an element means is asked of walk in both.
func judged(body []byte) ([]foundHref, Page) {
	var x Extractor
	var page Page
	w := &walk{x: &x, page: &page, opt: fuzzOptions, charset: lookup("utf-8"), framesetOK: true}
	z := html.NewTokenizer(bytes.NewReader(body))
	raw := false // the next text is no markup
	for {
		z.AllowCDATA(w.cdata())
		switch kind := z.Next(); kind {
		case html.ErrorToken:
			if !errors.Is(z.Err(), io.EOF) {
				panic(z.Err())
			}
			return collected(&x, w), page
		case html.TextToken:
			if !raw && !blank(z.Raw()) && !bytes.HasPrefix(z.Raw(), []byte("<![CDATA[")) {
				w.framesetOK = false
			}
			raw = false
		case html.StartTagToken, html.SelfClosingTagToken:
			raw = judgedStart(z, w, kind == html.SelfClosingTagToken)
			if !raw {
				z.NextIsNotRawText()
			}
		case html.EndTagToken:
			raw = false
			name, _ := z.TagName()
			if len(w.regions) > 0 || len(w.templates) > 0 {
				w.end(elements[string(name)])
			}
		}
	}
}

// judgedStart hands a start tag of the tokenizer to walk, and says whether text follows that is no
// markup.
func judgedStart(z *html.Tokenizer, w *walk, closed bool) bool {
	name, more := z.TagName()
	el := elements[string(name)]
	if !w.wants(el) {
		return false
	}
	s := &scanner{handler: w}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if a := attribute(key); a != attrNone && s.has&(1<<a) == 0 {
			s.has |= 1 << a
			s.attr[a] = bytes.ReplaceAll(value, []byte("&"), []byte("&amp;")) // the tokenizer has unescaped it
		}
	}
	return w.start(s, el, closed) != textMarkup
}

func collected(x *Extractor, w *walk) (all []foundHref) {
	clean := func(value []byte, literal bool) string {
		if !literal {
			value = x.decode(value)
		}
		value = withoutFragment(bytes.ReplaceAll(value, []byte{0}, []byte("\uFFFD")))
		return strings.NewReplacer("\r", "", "\n", "").Replace(string(value)) // the tokenizer normalises newlines
	}
	for i, h := range x.found {
		all = append(all, foundHref{clean(x.hrefs.keys[i], h.literal), h.kind, h.nofollow})
	}
	if w.hasBase {
		all = append(all, foundHref{url: "base " + clean(w.base, false)})
	}
	// Different spellings of one value are one.
	merged := all[:0]
	for _, f := range all {
		i := slices.IndexFunc(merged, func(m foundHref) bool { return m.url == f.url })
		if i < 0 {
			merged = append(merged, f)
			continue
		}
		merged[i].kind, merged[i].nofollow = merge(merged[i].kind, merged[i].nofollow, f.kind, f.nofollow)
	}
	return merged
}

var fuzzSeeds = []string{
	`<a href=x rel=nofollow>a</a><A HREF='y&amp;z' href=no><a/href="b"c>`,
	`<!-- <a href=1> --><!--><a href=2><!---><a href=3>--!><a href=4><!-- --!><a href=5>`,
	`<script><!--<script></script><a href=1>--></script><a href=2><script>x</scripty></script ><a href=3>`,
	`<title><a href=1></title><svg><title><a href=2></title><style><a href=3></style><![CDATA[<a href=4>]]></svg><![CDATA[<a href=5>]]>`,
	`<textarea><a href=1></TEXTAREA/><noscript><a href=2></noscript><xmp></xm</xmp><plaintext><a href=3>`,
	`<math><mi><a href=1></mi><annotation-xml encoding=text/html><a href=2></annotation-xml><p><a href=3>`,
	`<template><a href=1><template></template><a href=2></template><a href=3><template shadowrootmode=open><a href=4></template>`,
	`<frameset><frame src=a></frameset>`, `<p>x<frameset><frame src=a></frameset>`, `<base href=a><base href=b>`,
	`<meta name=robots content="noindex, nofollow"><meta http-equiv=refresh content="1;url='a'b"><meta name=apoidea content=none>`,
	`<img src=a srcset="b 1x, c,d 2x,, e"><link rel="next nofollow" href=f><link rel=stylesheet href=g><link rel=preconnect href=h>`,
	`<a href="x>y</a><a href="z">`, `<a href="x"`, `</a href=x>`, `<a =href=x href==y>`, `<a href = &#x41;&#65&notit;&copy=&lt>`, `<?a <a href=x>`, `</ <a href=x>`,
	"<a\x00href=x><a href=\"\x00\"><a href=a\r\nb>", `<svg><a xlink:href=x href=y /><image href=z></svg></svg><svg/><title><a href=a>`,
}

// judgeErrs finds where the judge itself is wrong: within an escaped script, a less-than sign that
// begins no tag ends the escape for it; by the standard ("script data escaped less-than sign
// state") the escape goes on.
var judgeErrs = regexp.MustCompile(`(?is)<script.*<!--.*<[^a-z/]`)

// FuzzScanner: the scanner finds what golang.org/x/net/html finds.
func FuzzScanner(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if judgeErrs.Match(body) {
			return
		}
		got, gotPage := scanned(body)
		want, wantPage := judged(body)
		if !slices.Equal(got, want) || gotPage.NoIndex != wantPage.NoIndex || gotPage.NoFollow != wantPage.NoFollow {
			t.Errorf("%q:\n got %+v %+v\nwant %+v %+v", body, got, gotPage, want, wantPage)
		}
	})
}

// FuzzDocument: no answer whatever makes the extractor fail, and what it finds is canonical, once
// each.
func FuzzDocument(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s), "text/html", `<a>; rel=next, <b>; rel="x next"`, "noindex")
	}
	f.Add([]byte("\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00"), "text/html;charset=koi8-r", `<a`, "apoidea: none")
	f.Add([]byte("<meta name=robots content='max-image-preview: none; nofollow'><meta http-equiv=x-robots-tag content=noindex>"), "text/html, text/html; charset=\"a,b\\", "",
		"unavailable_after: Wed, 25 Jun 2025 15:00:00 GMT, nofollow")
	f.Add([]byte("<meta charset=shift_jis><a href='?\x93\xfa'>"), "", `<;rel="\"`, "x")
	f.Fuzz(func(t *testing.T, body []byte, contentType, linkHeader, robots string) {
		var x Extractor
		var page Page
		header := map[string][]string{"Content-Type": {contentType}, "Link": {linkHeader}, "X-Robots-Tag": {robots}, "Refresh": {linkHeader}}
		if err := x.Document(&page, "https://a.example/b/c", header, body, fuzzOptions); err != nil {
			t.Fatal(err)
		}
		checkLinks(t, page)
	})
}

// FuzzSitemap: no body whatever makes the reader fail otherwise than by an error.
func FuzzSitemap(f *testing.F) {
	f.Add([]byte(`<urlset><url><loc>https://a.example/x</loc></url></urlset>`))
	f.Add([]byte(`<?xml version="1.0" encoding="koi8-r"?><sitemapindex><sitemap><loc>/x</loc></sitemap>`))
	f.Add([]byte("https://a.example/x\r\nhttp://b.example\n"))
	f.Add([]byte("\x1f\x8b\x08"))
	f.Add([]byte("\ufeff\x00https://a.example/x\rHTTP://b.example\r\x00"))
	f.Add([]byte("\xff\xfeh\x00t\x00t\x00p\x00:\x00/\x00/\x00a\x00\r\x00"))
	f.Add([]byte(`<s:urlset xmlns:s="a" xmlns="b"><s:url><s:loc xmlns:s="c">/x</s:loc><link xmlns="http://www.w3.org/1999/xhtml" href="/y"/></s:url>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		var x Extractor
		var page Page
		if err := x.Sitemap(&page, "https://a.example/sitemap.xml", body, false); err == nil {
			checkLinks(t, page)
		}
	})
}

func checkLinks(t *testing.T, page Page) {
	t.Helper()
	seen := map[string]bool{}
	for _, l := range page.Links {
		if url, err := link.Canonical(l.URL); err != nil || url != l.URL || seen[url] {
			t.Errorf("%q: canonical %q, %v; seen %v", l.URL, url, err, seen[url])
		}
		seen[l.URL] = true
	}
}
