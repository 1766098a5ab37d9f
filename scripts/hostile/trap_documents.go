package main

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Documents.
//
// The trap: 14 MiB of elements within each other, a million attributes, comments and scripts
// without an end, entities by the million, NULs; texts in UTF-16, UTF-32, UTF-7 or another charset
// than they say; types that are twice, or lies.
//
// A good crawler finds the links that a browser would, in one pass and in time that grows with the
// text, and takes no link twice.
var documentsFamily = family{
	name:  "documents",
	does:  "elements nested by the million, attributes, entities, comments without end, odd charsets, types that lie",
	quick: true,
	seeds: func(w *world) []string { return w.urls("documents", slices.Collect(maps.Keys(documents))...) },
	serve: serveDocuments,
	check: func(j *judge) {
		for _, name := range foundIn {
			j.wants(name, "/found")
		}
	},
}

const docBytes = 6 << 20

// foundIn are documents whose link /found every browser finds.
var foundIn = []string{"nested", "attributes", "entities", "nul", "utf16", "utf16be", "latin", "nobody", "svg", "xhtml", "twicetype", "longattr", "comment", "links"}

const foundLink = `<a href="/found">found</a>`

type document struct {
	kind string
	text func() string
}

func times(piece string, bytes int) string { return strings.Repeat(piece, bytes/len(piece)) }

var documents = map[string]document{
	"nested":     {"text/html", func() string { return foundLink + times("<div>", docBytes) }},
	"tables":     {"text/html", func() string { return times("<table><tr><td>", docBytes) + foundLink }},
	"formatting": {"text/html", func() string { return times("<a><b><i><p>", docBytes) + foundLink }},
	"attributes": {"text/html", func() string {
		var b strings.Builder
		b.WriteString(foundLink + "<p ")
		for i := range 400_000 {
			fmt.Fprintf(&b, "a%d=b ", i)
		}
		return b.String() + ">"
	}},
	"longattr": {"text/html", func() string { return foundLink + `<a href="/` + times("a", docBytes) + `">x</a>` }},
	"open":     {"text/html", func() string { return foundLink + `<a href="/` + times("a", docBytes) }},
	"comment":  {"text/html", func() string { return foundLink + "<!-- " + times(`<a href="/no">`, docBytes) }},
	"comments": {"text/html", func() string { return times("<!--", docBytes) + foundLink }},
	"script":   {"text/html", func() string { return foundLink + "<script>" + times("<!--<script>", docBytes) }},
	"cdata":    {"text/html", func() string { return times("<![CDATA[", docBytes) }},
	"less":     {"text/html", func() string { return times("<", docBytes) }},
	"ends":     {"text/html", func() string { return times("</", docBytes) + foundLink }},
	"quotes":   {"text/html", func() string { return times(`<a href="`, docBytes) }},
	"entities": {"text/html", func() string { return foundLink + `<a href="/` + times("&amp;&lt;&notit;", 1<<20) + `">x</a>` }},
	"numbers":  {"text/html", func() string { return `<a href="/` + times("&#99999999999999;", docBytes) + `">x</a>` }},
	"nul":      {"text/html", func() string { return times("\x00", 1<<20) + foundLink }},
	"utf16":    {"text/html", func() string { return utf16Text("<html>"+foundLink, false) }},
	"utf16be":  {"text/html", func() string { return utf16Text("<html>"+foundLink, true) }},
	"utf32":    {"text/html; charset=utf-32", func() string { return "\xff\xfe\x00\x00<\x00\x00\x00a\x00\x00\x00" }},
	"utf7":     {"text/html; charset=utf-7", func() string { return "+ADw-a href+AD0-/no+AD4-" }},
	"latin":    {"text/html; charset=nonsense-8859-99", func() string { return foundLink + "\xe9\xff" }},
	"charsets": {"text/html", func() string { return times("<meta charset=utf-7>", 1<<20) + foundLink }},
	"nobody":   {"text/html", func() string { return foundLink }},
	"svg": {"text/html", func() string {
		return `<svg><a xlink:href="/found"><text>x</text></a></svg>` + times("<svg><math><mtext>", 1<<20)
	}},
	"xhtml": {"application/xhtml+xml", func() string {
		return `<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml">` + foundLink + "</html>"
	}},
	"laughs": {"application/xhtml+xml", func() string {
		return `<!DOCTYPE h [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><html>` + times("&b;", 1<<20) + "</html>"
	}},
	"twicetype": {"text/html, text/html; charset=utf-8", func() string { return "<html>" + foundLink }},
	"image":     {"image/png", func() string { return "\x89PNG\r\n" + foundLink }},
	"pdf":       {"text/html", func() string { return "%PDF-1.7 " + times("\x01\x02", 1<<20) }},
	"links":     {"text/html", func() string { return foundLink + times(`<a href="/same">x</a>`, docBytes) }},
	"templates": {"text/html", func() string { return times("<template><noscript><select>", docBytes) }},
	"doctype":   {"text/html", func() string { return "<!DOCTYPE " + times("a", docBytes) + ">" + foundLink }},
	"empty":     {"text/html", func() string { return "" }},
}

func serveDocuments(_ *world, rw http.ResponseWriter, r *http.Request, name string) {
	if r.URL.Path == "/found" {
		writePage(rw, page(r.Host+"/found"))
		return
	}
	d, ok := documents[name]
	if !ok || r.URL.Path != "/" {
		http.NotFound(rw, r)
		return
	}
	rw.Header().Set("Content-Type", d.kind)
	_, _ = io.WriteString(rw, d.text())
}
