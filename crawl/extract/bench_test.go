package extract

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// docPage makes a page like those of a generated documentation: about 38 kB and 150 links, of which
// two thirds name what no other does.
func docPage() []byte {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("the module object returns a new string if value is not given and raises an exception when index out of range " +
		"this method was added for compatibility with other implementations see also section below")
	var b strings.Builder
	b.WriteString(`<!DOCTYPE html>

<html lang="en" data-content_root="../">
  <head>
    <meta charset="utf-8" />
    <meta name="viewport" content="width=device-width, initial-scale=1.0" /><meta name="viewport" content="width=device-width" />
    <title>os.path — Common pathname manipulations &#8212; Documentation</title>
    <link rel="stylesheet" type="text/css" href="../_static/pygments.css?v=b86133f3" />
    <link rel="stylesheet" type="text/css" href="../_static/pydoctheme.css?v=23252803" />
    <script src="../_static/documentation_options.js?v=5d32c60e"></script>
    <script src="../_static/doctools.js?v=9bcbadda"></script>
    <link rel="index" title="Index" href="../genindex.html" />
    <link rel="search" title="Search" href="../search.html" />
    <link rel="next" title="fileinput" href="fileinput.html" />
    <style>@media only screen { table.full-width-table { width: 100%; } }</style>
  </head>
<body>
<div class="mobile-nav"><input type="checkbox" id="menuToggler" class="toggler__input" aria-controls="navigation"/></div>
`)
	for i := range 37 {
		fmt.Fprintf(&b, `<dl class="py function"><dt class="sig sig-object py" id="os.path.f%d">
<span class="sig-prename descclassname"><span class="pre">os.path.</span></span><span class="sig-name descname"><span class="pre">f%d</span></span><span class="sig-paren">(</span><em class="sig-param"><span class="n"><span class="pre">path</span></span></em><span class="sig-paren">)</span><a class="headerlink" href="#os.path.f%d" title="Link to this definition">¶</a></dt>
<dd>`, i, i, i)
		for k := range 3 {
			b.WriteString("<p>")
			for range 14 {
				b.WriteString(words[rnd.IntN(len(words))] + " ")
			}
			n := rnd.IntN(200)
			fmt.Fprintf(&b, `<a class="reference internal" href="%sm%d.html#m%d.f" title="m%d.f"><code class="xref py docutils literal"><span class="pre">m%d.f()</span></code></a>.</p>
`, []string{"../library/", "", "../howto/"}[k], n, n, n, n)
		}
		b.WriteString("</dd></dl>\n")
	}
	b.WriteString("</body>\n</html>\n")
	return []byte(b.String())
}

const benchURL = "https://docs.example.org/3/library/os.path.html"

func BenchmarkHTML(b *testing.B) {
	body := docPage()
	var x Extractor
	var page Page
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if err := x.HTML(&page, benchURL, "text/html; charset=utf-8", body, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(len(body)), "bytes/page")
	b.ReportMetric(float64(len(page.Links)), "links")
}

func BenchmarkScan(b *testing.B) {
	body := docPage()
	var x Extractor
	var page Page
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		x.walk = walk{x: &x, page: &page, framesetOK: true}
		x.scan.run(body, &x.walk)
		x.hrefs.reset()
		x.found = x.found[:0]
	}
}

// BenchmarkTokenizer is what golang.org/x/net/html needs for the tokens alone, for comparison.
func BenchmarkTokenizer(b *testing.B) {
	body := docPage()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		z := html.NewTokenizer(strings.NewReader(string(body)))
		for z.Next() != html.ErrorToken {
			name, more := z.TagName()
			for more && len(name) > 0 {
				_, _, more = z.TagAttr()
			}
		}
	}
}

// BenchmarkLinkHeader extracts an answer whose head is full of links, as many fields and as one.
func BenchmarkLinkHeader(b *testing.B) {
	for name, tail := range map[string]string{"fields": "", "repeated": "", "unclosed": `; title="`} {
		b.Run(name, func(b *testing.B) {
			var list []string
			for i := range 5000 {
				if name == "repeated" {
					i = 0
				}
				list = append(list, fmt.Sprintf("</%d>; rel=next%s", i, tail))
			}
			header := http.Header{"Link": list}
			if name != "fields" {
				header = http.Header{"Link": {strings.Join(list, ", ")}}
			}
			var x Extractor
			var page Page
			for b.Loop() {
				if err := x.Document(&page, benchURL, header, nil, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
