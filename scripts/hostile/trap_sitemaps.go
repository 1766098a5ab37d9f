package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Sitemaps and feeds.
//
// The trap: indexes of indexes without end, sitemaps of a million URLs, of a gigabyte once
// unpacked, with entities that grow, cut in the middle of an element, with hosts and schemes of
// others, with CR alone between URLs, in UTF-16; robots.txt that names thousands; feeds that lead
// to feeds.
//
// A good crawler takes so many sitemaps of a host and so many URLs of each, treats each URL as a
// link found, and stops at the bound of a file.
var sitemapsFamily = family{
	name: "sitemaps",
	does: "indexes of indexes, sitemaps of a gigabyte, of a million URLs, of entities; lists with CR alone; feeds of feeds",
	seeds: func(w *world) []string {
		return w.urls("sitemaps", "nested", "bomb", "laughs", "large", "cr", "utf16", "thousands", "others", "rss", "cut", "prefixed", "deep", "plain", "extension")
	},
	serve:     serveSitemaps,
	ownRobots: true,
	check: func(j *judge) {
		for _, name := range []string{"cr", "utf16", "prefixed", "plain", "cut", "extension"} {
			j.wants(name, "/found")
		}
		if j.asked("extension", "/image.png") > 0 {
			j.blame("sitemaps: an image of a sitemap's extension was asked for as a page")
		}
	},
}

func serveSitemaps(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	u := func(path string) string { return w.url("sitemaps", name, path) }
	switch {
	case r.URL.Path == "/robots.txt":
		_, _ = io.WriteString(rw, defaultRobots)
		n := map[string]int{"thousands": 5000}[name]
		for i := range max(n, 1) {
			fmt.Fprintf(rw, "Sitemap: %s\n", u(fmt.Sprintf("/sitemap/%d", i)))
		}
	case strings.HasPrefix(r.URL.Path, "/sitemap/"):
		rw.Header().Set("Content-Type", "application/xml")
		w.sitemap(rw, r, name, u)
	case r.URL.Path == "/" || r.URL.Path == "/found":
		writePage(rw, page(r.Host+r.URL.Path))
	default:
		writePage(rw, page("one of many"))
	}
}

const (
	urlset   = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	mapOfAll = `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
)

func loc(url string) string { return "<url><loc>" + url + "</loc></url>\n" }

func (w *world) sitemap(rw http.ResponseWriter, r *http.Request, name string, u func(string) string) {
	write := func(format string, args ...any) { fmt.Fprintf(rw, format, args...) }
	switch name {
	case "nested":
		write("%s", mapOfAll)
		for _, n := range some(r, 20) {
			write("<sitemap><loc>%s</loc></sitemap>", u(fmt.Sprintf("/sitemap/%d", n)))
		}
		write("</sitemapindex>")
	case "bomb":
		var out bytes.Buffer
		z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		_, _ = io.WriteString(z, urlset+loc(u("/found")))
		space := bytes.Repeat([]byte{'\n'}, 1<<20)
		for range 200 {
			_, _ = z.Write(space)
		}
		_ = z.Close()
		_, _ = rw.Write(out.Bytes())
	case "laughs":
		write("%s", `<?xml version="1.0"?><!DOCTYPE u [<!ENTITY a "http://a.sitemaps.test/">`)
		for c := 'b'; c < 'z'; c++ {
			write("<!ENTITY %c \"%s\">", c, strings.Repeat(fmt.Sprintf("&%c;", c-1), 10))
		}
		write("]><urlset><url><loc>&y;</loc></url></urlset>")
	case "large":
		write("%s", urlset)
		for i := range 200_000 {
			write("%s", loc(u(fmt.Sprintf("/large/%d", i))))
		}
	case "thousands":
		write("%s%s", urlset, loc(u("/of"+r.URL.Path)))
	case "cr":
		rw.Header().Set("Content-Type", "text/plain")
		write("%s", strings.Join([]string{u("/one"), u("/found"), u("/two")}, "\r"))
	case "utf16":
		write("%s", utf16Text(strings.Replace(urlset, "?>", " encoding=\"utf-16\"?>", 1)+loc(u("/found"))+"</urlset>", false))
	case "others":
		write("%s", urlset)
		for i := range 2000 {
			write("%s", loc(w.url("sitemaps", fmt.Sprintf("other%d", i), "/")))
		}
		write("%s%s%s</urlset>", loc("file:///etc/passwd"), loc("javascript:x"), loc(u("/forbidden/x")))
	case "rss":
		rw.Header().Set("Content-Type", "application/rss+xml")
		write(`<rss version="2.0"><channel>`)
		for _, n := range some(r, 5) {
			write("<item><link>%s</link></item>", u(fmt.Sprintf("/sitemap/%d", n)))
		}
	case "cut":
		write("%s%s<url><loc>%s", urlset, loc(u("/found")), u("/half"))
	case "prefixed":
		write(`<s:urlset xmlns:s="http://www.sitemaps.org/schemas/sitemap/0.9"><s:url><s:loc>%s</s:loc></s:url></s:urlset>`, u("/found"))
	case "extension":
		write(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:pic="http://www.google.com/schemas/sitemap-image/1.1"><url><loc>%s</loc><pic:image><pic:loc>%s</pic:loc></pic:image></url></urlset>`, u("/found"), u("/image.png"))
	case "deep":
		write("%s%s", urlset, strings.Repeat("<url>", 1<<20))
	default:
		rw.Header().Set("Content-Type", "text/plain")
		write("%s\n", u("/found"))
	}
}
