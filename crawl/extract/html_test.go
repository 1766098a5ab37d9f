package extract

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/crawl/link"
)

const site = "https://a.example/d/"

// extractLinks returns the links of a UTF-8 document at site, relative to it, requisites marked +,
// nofollow marked !.
func extractLinks(t testing.TB, body string) string {
	t.Helper()
	var x Extractor
	var page Page
	if err := x.HTML(&page, site+"page", "text/html; charset=utf-8", []byte(body), Options{Requisites: true, Agent: "apoidea"}); err != nil {
		t.Fatal(err)
	}
	return list(page)
}

func list(page Page) string {
	var all []string
	for _, l := range page.Links {
		mark := ""
		if l.Kind == link.KindRequisite {
			mark = "+"
		}
		if l.Kind == link.KindSitemap {
			mark = "*"
		}
		if l.Nofollow {
			mark += "!"
		}
		all = append(all, mark+strings.TrimPrefix(l.URL, site))
	}
	return strings.Join(all, " ")
}

func TestHTML(t *testing.T) {
	for _, tc := range []struct{ name, body, want string }{
		{"anchor and area", `<A HREF="a">x</A><area href=b>`, "a b"},
		{"frames", `<iframe src=a><a href=no></iframe><frameset><frame src=no>`, "a"},
		{"frameset", `<html><head><title>t</title></head><frameset><frame src=a><frame src=b></frameset>`, "a b"},
		{"frameset after text", `x<frameset><frame src=no>`, ""},
		{"frameset after a sign", `< <frameset><frame src=no>`, ""},
		{"frameset after a hidden input", `<input type=hidden><frameset><frame src=a>`, "a"},
		{"frameset after body", `<body><frameset><frame src=no>`, ""},
		{"link relations", `<link rel=next href=a><link rel="Shortcut ICON" href=b><link rel=preconnect href=no><link href=no>`, "a +b"},
		{"alternate style sheet", `<link rel="alternate stylesheet" href=a><link rel=alternate href=b>`, "+a b"},
		{"base", `<a href=x><base href="/e/"><base href="/f/"><a href=y>`, "https://a.example/e/x https://a.example/e/y"},
		{"base of another scheme", `<base href="ftp://b.example/"><a href=no><a href="http://b.example/">`, "http://b.example/"},
		{"refresh", `<meta http-equiv=Refresh content="3; URL=a">`, "a"},
		{"refresh of itself", `<meta http-equiv=refresh content=30>`, ""},
		{"requisites", `<img src=a srcset="b 1x, c,d 2x"><script src=e></script><video src=f poster=g><source src=h srcset=i><embed src=j><object data=k><input type=image src=l><input src=no>`, "+a +b +c,d +e +f +g +h +i +j +k +l"},
		{"image that is a link too", `<img src=a><a href=a>`, "a"},
		{"nofollow", `<a rel="x NoFollow" href=a><a rel=ugc href=b><a rel=nofollow href=c><a href=c>`, "!a b c"},
		{"same page twice", `<a href=a><a href="./a#x"><a href=" a ">`, "a"},
		{"page itself", `<a href="#x"><a href="">`, "page"},
		{"not crawlable", `<a href="mailto:x@b.example"><a href="javascript:x()"><a href="data:,x"><a href=a>`, "a"},
		{"comment", `<!-- <a href=no> --><!--><a href=a><!--x--!><a href=b><!-- <a href=no>`, "a b"},
		{"bogus comments", `<!x <a href=no> ><?x <a href=no> ></ <a href=no> ></><a href=a>`, "a"},
		{"script", `<script>"<a href=no>"</script ><a href=a><script><!--<script></script><a href=no>--></script><a href=b>`, "a b"},
		{"escaped script with a sign", `<script><!-- < <script> </script> <a href=no> --></script><a href=a>`, "a"},
		{"raw text", `<title><a href=no></title><textarea><a href=no></textarea><style><a href=no></style><xmp><a href=no></xmp><noembed><a href=no></noembed><noframes><a href=no></noframes><a href=a>`, "a"},
		{"plaintext", `<a href=a><plaintext><a href=no></plaintext><a href=no>`, "a"},
		{"noscript is markup", `<noscript><a href=a></noscript>`, "a"},
		{"template is inert", `<template><a href=no><template></template><a href=no></template><a href=a>`, "a"},
		{"shadow root is not", `<template shadowrootmode=open><a href=a></template><a href=b>`, "a b"},
		{"svg", `<svg><a xlink:href=a><a href=b xlink:href=no><title><a href=c></title><style><a href=d></style></svg><style><a href=no></style>`, "a b c d"},
		{"svg left by an HTML element", `<svg><div><title><a href=no></title><a href=a>`, "a"},
		{"CDATA", `<svg><![CDATA[<a href=no>]]></svg><![CDATA[<a href=no>]]><a href=a>`, "a"},
		{"math", `<math><mi><a href=a></mi><mtext><title><a href=no></title></mtext></math><a href=b>`, "a b"},
		{"end tags", `</a href=no><a href=a>`, "a"},
		{"end of file in a tag", `<a href=a><a href="no"`, "a"},
		{"first attribute counts", `<a href=a href=no>`, "a"},
		{"no value", `<a href><a href=><a href=a>`, "page a"},
		{"references", `<a href="?a=1&amp;b=2&copy=3&copy;&#x41;&#66&notit;&lt">`, site + "page?a=1&b=2&copy=3%C2%A9AB&notit;%3C"},
		{"references that are none", `<a href="?&;&nosuch;&amp">`, site + "page?&;&nosuch;&"},
		{"requisites that name nothing", `<img src=""><img srcset=" , ">`, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			want := strings.ReplaceAll(tc.want, site, "")
			if got := extractLinks(t, tc.body); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestWithoutRequisites(t *testing.T) {
	var x Extractor
	var page Page
	body := `<img src=no><link rel=stylesheet href=no><script src=no></script><body background=no><svg><image href=no></svg><a href=a>`
	if err := x.HTML(&page, site, "text/html", []byte(body), Options{}); err != nil {
		t.Fatal(err)
	}
	if got := list(page); got != "a" {
		t.Errorf("got %q", got)
	}
}

func TestRobotsMeta(t *testing.T) {
	for _, tc := range []struct {
		name, body        string
		noIndex, noFollow bool
	}{
		{"none said", `<meta name=description content=noindex>`, false, false},
		{"both", `<meta name=ROBOTS content="NoIndex , nofollow">`, true, true},
		{"none", `<meta content=none name=robots>`, true, true},
		{"other crawler", `<meta name=otherbot content=none>`, false, false},
		{"this crawler", `<meta name=Apoidea content=noindex><meta name=robots content=nofollow>`, true, true},
		{"in a template", `<template><meta name=robots content=none></template>`, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var x Extractor
			var page Page
			if err := x.HTML(&page, site, "text/html", []byte(tc.body+`<a href=a>`), Options{Agent: "apoidea"}); err != nil {
				t.Fatal(err)
			}
			if page.NoIndex != tc.noIndex || page.NoFollow != tc.noFollow || page.Links[0].Nofollow != tc.noFollow {
				t.Errorf("%+v", page)
			}
		})
	}
}

func TestEncodedHrefs(t *testing.T) {
	utf16 := "\xfe\xff"
	for _, c := range `<a href="?ж">` {
		utf16 += string([]byte{byte(c >> 8), byte(c)})
	}
	for _, tc := range []struct{ name, contentType, body, want, charset string }{
		{"header beats meta", "text/html; charset=koi8-r", "<meta charset=utf-8><a href='/\xd6?\xd6'>", "/%D0%B6?%D6", "koi8-r"},
		{"malformed header", "text/html; x; charset=koi8-r, text/html", "<a href='/\xd6'>", "/%D0%B6", "koi8-r"},
		{"meta", "text/html", "<meta charset=koi8-r><a href='/\xd6?\xd6'>", "/%D0%B6?%D6", "koi8-r"},
		{"meta behind the hrefs", "text/html", "<a href='/\xd6?\xd6'>" + strings.Repeat(" ", 2000) + "<meta charset=koi8-r>", "/%D0%B6?%D6", "koi8-r"},
		{"default", "text/html", "<a href='/\xe9?\xe9'>", "/%C3%A9?%E9", "windows-1252"},
		{"mark beats header", "text/html; charset=koi8-r", "\xef\xbb\xbf<a href='/é?é'>", "/%C3%A9?%C3%A9", "utf-8"},
		{"UTF-16", "text/html", utf16, "/?%D0%B6", "utf-16be"},
		{"two bytes a character", "text/html; charset=shift_jis", "<a href='/\x83\x5c?\x83\x5c'>", "/%E3%82%BD?%83\\", "shift_jis"},
		{"escapes that look like markup", "text/html; charset=iso-2022-jp", "<a href='/\x1b$B%=<'\x1b(B'>", "/%E3%82%BD%E7%A3%81", "iso-2022-jp"},
		{"not UTF-8", "text/html; charset=utf-8", "<a href='/\xff'>", "/%EF%BF%BD", "utf-8"},
		{"XHTML", "application/xhtml+xml", `<?xml version="1.0" encoding="koi8-r"?><title/><a href='/` + "\xd6'/>", "/%D0%B6", "koi8-r"},
		{"XHTML without declaration", "application/xhtml+xml", "<script src='x'/><![CDATA[<a href='no'>]]><a href='/é'/>", "/%C3%A9", "utf-8"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var x Extractor
			var page Page
			if err := x.HTML(&page, "https://a.example", tc.contentType, []byte(tc.body), Options{}); err != nil {
				t.Fatal(err)
			}
			if len(page.Links) != 1 || page.Links[0].URL != "https://a.example"+tc.want || x.walk.charset.name != tc.charset {
				t.Errorf("%+v", page)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	t.Run("deep", func(t *testing.T) {
		for _, open := range []string{"<div>", "<svg>", "<template shadowrootmode=open>", "<math><mi>"} {
			if got := extractLinks(t, strings.Repeat(open, 100_000)+"<a href=a>"); got != "a" {
				t.Errorf("%s: %q", open, got)
			}
		}
	})
	t.Run("many links", func(t *testing.T) {
		var b strings.Builder
		for i := range MaxLinks + 10 {
			fmt.Fprintf(&b, "<a href=%d>", i)
		}
		b.WriteString("<a href=7><a href=7>") // known, and so not left out
		var x Extractor
		var page Page
		if err := x.HTML(&page, site, "text/html", []byte(b.String()), Options{}); err != nil {
			t.Fatal(err)
		}
		if len(page.Links) != MaxLinks || page.LeftOut != 10 {
			t.Errorf("%d links, %d left out", len(page.Links), page.LeftOut)
		}
	})
	t.Run("long base", func(t *testing.T) {
		var b strings.Builder
		b.WriteString("<base href=/" + strings.Repeat("x", link.MaxURL-100) + "/>")
		for i := range MaxLinks {
			fmt.Fprintf(&b, "<a href=%d>", i)
		}
		var x Extractor
		var page Page
		if err := x.HTML(&page, site, "text/html", []byte(b.String()), Options{}); err != nil {
			t.Fatal(err)
		}
		total := 0
		for _, l := range page.Links {
			total += len(l.URL)
		}
		if total > MaxLinkBytes || page.LeftOut == 0 || len(page.Links) == 0 || len(page.Links)+page.LeftOut != MaxLinks {
			t.Errorf("%d bytes in %d links, %d left out", total, len(page.Links), page.LeftOut)
		}
	})
	t.Run("extractor after a large page", func(t *testing.T) {
		var x Extractor
		var page Page
		for _, body := range []string{strings.Repeat("<a href=x>", 10), docs(30_000), "<a href=a>"} {
			if err := x.HTML(&page, site, "text/html", []byte(body), Options{}); err != nil {
				t.Fatal(err)
			}
		}
		if got := list(page); got != "a" {
			t.Errorf("got %q", got)
		}
	})
}

// docs returns a page of n different links.
func docs(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "<p><a href=%d>x</a>", i)
	}
	return b.String()
}

// TestScannerRandom holds the scanner to the judge on documents made of the pieces that are hard.
func TestScannerRandom(t *testing.T) {
	pieces := strings.Split("<a |<a|</a|href|href=|=|'|\"|>|>|>|/|/>| |\n|x|y|&amp;|&lt|&|;|<!--|-->|--!>|--|-|!|<!|<?|</|<|<script>|</script>|</script |<script |"+
		"<!--<script>|<title>|</title>|<style>|</style>|<svg>|</svg>|<svg/>|<math>|</math>|<mi>|</mi>|<![CDATA[|]]>|<p>|</p>|<template>|</template>|"+
		"<textarea>|</textarea |<iframe src=|<frame src=|<frameset>|<base href=|<meta name=robots content=|none|<meta http-equiv=refresh content=1;url=|"+
		"<img srcset=|,|<link rel=next href=|rel=nofollow |xlink:href=|<desc>|</desc>|<foreignObject>|</noscript>|<noscript>|<plaintext>|<xmp>|</xmp>|\x00|\r|é", "|")
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		var b strings.Builder
		for range 3 + rnd.IntN(20) {
			b.WriteString(pieces[rnd.IntN(len(pieces))])
		}
		body := []byte(b.String())
		if judgeErrs.Match(body) {
			continue
		}
		got, gotPage := scanned(body)
		want, wantPage := judged(body)
		if !slices.Equal(got, want) || gotPage.NoIndex != wantPage.NoIndex {
			t.Fatalf("%q:\n got %+v\nwant %+v", body, got, want)
		}
	}
}

// TestTree holds the whole extraction to the tree that golang.org/x/net/html.Parse builds.
func TestTree(t *testing.T) {
	documents := append([]string{string(docPage())}, fuzzSeeds...)
	for _, body := range documents {
		root, err := html.ParseWithOptions(strings.NewReader(body), html.ParseOptionEnableScripting(false))
		if err != nil {
			t.Fatal(err)
		}
		base, err := link.NewBase(site + "page")
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for n := range root.Descendants() {
			if n.Type == html.ElementNode && n.Data == "base" && n.Namespace == "" && !inTemplate(n) {
				base = base.Rebase([]byte(attrOf(n, "href")))
				break
			}
		}
		for n := range root.Descendants() {
			if n.Type != html.ElementNode || n.Data != "a" || inTemplate(n) || attrOf(n, "href") == "" {
				continue
			}
			if url, err := base.AppendResolve(nil, []byte(attrOf(n, "href"))); err == nil {
				want = append(want, strings.TrimPrefix(string(url), site))
			}
		}
		got := strings.Fields(strings.ReplaceAll(extractLinks(t, body), "!", ""))
		for _, url := range want {
			if !slices.Contains(got, url) {
				t.Errorf("%.100q: %q not in %q", body, url, got)
			}
		}
	}
}

func attrOf(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

func inTemplate(n *html.Node) bool {
	for p := range n.Ancestors() {
		if p.Data == "template" && p.Namespace == "" && attrOf(p, "shadowrootmode") == "" {
			return true
		}
	}
	return false
}

func TestDocument(t *testing.T) {
	var x Extractor
	var page Page
	header := map[string][]string{
		"Content-Type": {"application/pdf"},
		"Link":         {`<../up>; rel="next", <css>; rel=preload, <no>; title=x`, ` , <z>;title="a, <no>; rel=next \" ";rel="up nofollow" ; x`},
		"X-Robots-Tag": {"otherbot: noindex", "apoidea: nofollow, unavailable_after: 25 Jun 2030 15:00:00 PST"},
		"Refresh":      {"0; url=r"},
	}
	if err := x.Document(&page, site+"page", header, []byte("<a href=no>"), Options{Agent: "apoidea"}); err != nil {
		t.Fatal(err)
	}
	if got := list(page); got != "!https://a.example/up !z !r" || page.NoIndex || !page.NoFollow {
		t.Errorf("got %q, %+v", got, page)
	}
	header["Content-Type"] = []string{"text/html; charset=utf-8"}
	if err := x.Document(&page, site+"page", header, []byte("<base href=/e/><a href=a><a href=../up>"), Options{}); err != nil {
		t.Fatal(err)
	}
	if got := list(page); got != "https://a.example/up !z r https://a.example/e/a" {
		t.Errorf("got %q, %+v", got, page)
	}
	if err := x.Document(&page, "ftp://a.example/", nil, nil, Options{}); !errors.Is(err, link.ErrNotCrawlable) {
		t.Errorf("page that is not crawlable: %v", err)
	}
}

func TestIsHTML(t *testing.T) {
	for _, tc := range []struct {
		contentType, body string
		want              bool
	}{
		{"text/html", "", true},
		{" Text/HTML ;charset=x", "", true},
		{"text/html charset=utf-8", "", true},
		{"application/xhtml+xml", "", true},
		{"text/plain", "<html>", false},
		{"application/pdf", "<html>", false},
		{"", " \n<!doctype HTML>", true},
		{"", "<p >x", true},
		{"", "plain", false},
		{"*/*", "<!-- x", true},
	} {
		if got := IsHTML(tc.contentType, []byte(tc.body)); got != tc.want {
			t.Errorf("%q, %q: %v", tc.contentType, tc.body, got)
		}
	}
}
