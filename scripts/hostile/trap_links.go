package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// linksFamily fills the frontier. A good crawler limits the links of a page and the new hosts of a
// page and of a domain, counts what it dropped, and answers its users meanwhile. It leaves a host
// that shows the same page under every URL.
var linksFamily = family{
	name: "links",
	does: "200,000 host names in a page, 50,000 URLs of a host, farms of subdomains, 30,000 ports, URLs of any length",
	traps: map[string]trap{
		"hosts": {serve: func(x exchange) {
			x.list(hostsOfAPage, func(i int) string { return fmt.Sprintf("http://n%d.links.test:%d/", i, x.w.port) })
		}},
		"domains": {serve: func(x exchange) {
			x.list(hostsOfAPage, func(i int) string { return fmt.Sprintf("http://n%d-of-links.test:%d/", i, x.w.port) })
		}},
		"ports": {serve: func(x exchange) { // every port is a host of its own; nothing listens there
			x.list(portsOfAPage, func(i int) string { return fmt.Sprintf("http://scan.links.test:%d/", 20_000+i) })
		}},
		"wide": {
			serve: func(x exchange) {
				if x.r.URL.Path != "/" {
					x.page("wide")
					return
				}
				x.list(urlsOfAPage, func(i int) string { return fmt.Sprintf("/w/%05d", i) })
			},
			robots: func(x exchange) { // 2,000 of the 50,000 may be asked for
				x.write(plainType, defaultRobots+"Disallow: /w/\nAllow: /w/00\nAllow: /w/01\n")
			},
		},
		"farm": {serve: func(x exchange) {
			x.list(5, func(i int) string {
				return fmt.Sprintf("http://s%x.%s/", hashOf(fmt.Sprint(x.r.Host, x.r.URL.Path, i)), x.r.Host)
			})
			x.write(htmlType, prose(x.r.Host, 80))
		}},
		"long": {serve: func(x exchange) {
			sizes := []int{1 << 10, 2 << 10, 8 << 10, 15 << 10, 17 << 10, 64 << 10, 1 << 20}
			x.list(len(sizes), func(i int) string { return "/" + strings.Repeat("a", sizes[i]) })
		}},
		"query": {serve: func(x exchange) { x.list(1, func(int) string { return "/?" + strings.Repeat("a=b&", 200_000) }) }},
		"":      {serve: func(x exchange) { x.page(x.r.Host) }},
	},
	check: func(j *judge) {
		ports := 0
		for url, outcome := range j.urls {
			if strings.HasPrefix(url, "http://scan.links.test:") && outcome != "out_of_budget" {
				ports++
			}
		}
		if ports > mostPorts {
			j.blame("%d ports of one name were tried, bound %d", ports, mostPorts)
		}
		j.few(5000)
	},
}

const (
	hostsOfAPage = 200_000
	urlsOfAPage  = 50_000
	portsOfAPage = 30_000
	mostPorts    = 1000
)

// list sends n links without a text.
func (x exchange) list(n int, url func(i int) string) {
	x.rw.Header().Set("Content-Type", htmlType)
	for i := range n {
		if _, err := fmt.Fprintf(x.rw, "<a href=\"%s\">x</a>\n", url(i)); err != nil {
			return
		}
	}
}

// redirectsFamily has redirects without end. A good crawler treats a target as a link: its
// robots.txt first, its host's delay and budget; and it limits the length of a chain. See also
// crawl/worker: TestRedirectChains, crawl/link: TestResolveRefuses.
var redirectsFamily = family{
	name:  "redirects",
	does:  "loops, endless chains through URLs and hosts, a Location of a megabyte, to what robots.txt forbids",
	quick: true,
	traps: map[string]trap{
		"self":      {serve: redirects(func(x exchange) string { return x.r.URL.Path })},
		"ring":      {serve: redirects(func(x exchange) string { return fmt.Sprintf("/%d", (x.number("/%d")+1)%30) })},
		"chain":     {serve: redirects(func(x exchange) string { return fmt.Sprintf("/%d", x.number("/%d")+1) })},
		"hosts":     {serve: redirects(func(x exchange) string { return x.w.url(x.f.name, fmt.Sprintf("x%x.hosts", hashOf(x.r.Host)), "/") })},
		"large":     {serve: redirects(func(exchange) string { return "/" + strings.Repeat("a", 1<<20) })},
		"forbidden": {serve: redirects(func(exchange) string { return "/forbidden/x" })},
		"port":      {serve: redirects(func(exchange) string { return "http://port.redirects.test:1/" })},
		"schemes": {serve: redirects(func(x exchange) string {
			schemes := []string{"file:///etc/passwd", "ftp://127.0.0.1/", "javascript:alert(1)", "unix:/run/x.sock", "\\\\127.0.0.1\\x"}
			return schemes[hashOf(x.r.URL.Path)%uint64(len(schemes))]
		})},
		"downgrade": {https: true, serve: func(x exchange) {
			if x.r.TLS != nil {
				http.Redirect(x.rw, x.r, x.url("/plain"), http.StatusFound)
				return
			}
			x.own()
		}},
	},
	check: func(j *judge) {
		if n := len(j.host("chain").log); n > mostHops {
			j.blame("a chain of redirects through new URLs was followed %d times, bound %d", n, mostHops)
		}
		j.few(200)
		j.wants("downgrade", "/plain")
	},
}

const mostHops = 200

func redirects(to func(x exchange) string) func(x exchange) {
	return func(x exchange) {
		location := to(x)
		x.rw.Header()["Location"] = []string{location}
		x.rw.WriteHeader([]int{301, 302, 303, 307, 308}[hashOf(location)%5])
	}
}

// documentsFamily has documents of which a parser could take quadratic time. A good crawler finds
// the links that a browser would, in one pass. Small cases are in crawl/extract: TestBounds,
// TestEncoding.
var documentsFamily = family{
	name:  "documents",
	does:  "elements nested by the million, attributes, entities, comments without end",
	quick: true,
	traps: documentTraps(),
	check: func(j *judge) {
		for _, name := range slices.Sorted(maps.Keys(documents)) {
			if strings.Contains(documents[name](), foundLink) && !hidden[name] {
				j.wants(name, "/found")
			}
		}
	},
}

const (
	docBytes  = 6 << 20
	foundLink = `<a href="/found">found</a>`
)

// hidden are documents whose link is within another element.
var hidden = map[string]bool{"comments": true, "quotes": true, "tables": true, "formatting": true}

var documents = map[string]func() string{
	"nested":     func() string { return foundLink + times("<div>", docBytes) },
	"tables":     func() string { return times("<table><tr><td>", docBytes) + foundLink },
	"formatting": func() string { return times("<a><b><i><p>", docBytes) + foundLink },
	"attributes": func() string { return foundLink + "<p " + strings.Join(numbered("a%d=b ", 400_000), "") + ">" },
	"longattr":   func() string { return foundLink + `<a href="/` + times("a", docBytes) + `">x</a>` },
	"comment":    func() string { return foundLink + "<!-- " + times(`<a href="/no">`, docBytes) },
	"comments":   func() string { return times("<!--", docBytes) + foundLink },
	"script":     func() string { return foundLink + "<script>" + times("<!--<script>", docBytes) },
	"less":       func() string { return times("<", docBytes) },
	"quotes":     func() string { return times(`<a href="`, docBytes) + foundLink },
	"entities":   func() string { return foundLink + `<a href="/` + times("&amp;&lt;&notit;", 1<<20) + `">x</a>` },
	"links":      func() string { return foundLink + times(`<a href="/same">x</a>`, docBytes) },
	"templates":  func() string { return times("<template><noscript><select>", docBytes) },
}

func documentTraps() map[string]trap {
	traps := make(map[string]trap)
	for name, text := range documents {
		traps[name] = trap{serve: func(x exchange) {
			if x.r.URL.Path == "/" {
				x.write("text/html", text())
				return
			}
			x.own()
		}}
	}
	return traps
}

// sitemapsFamily has sitemaps without end. A good crawler limits the sitemaps of a host and the URLs
// of each, treats each URL as a link, and stops at the limit of a file. Forms of sitemaps are in
// crawl/extract: TestSitemap, TestSitemapBounds.
var sitemapsFamily = family{
	name: "sitemaps",
	does: "indexes of indexes, sitemaps of a gigabyte, of a million URLs, of entities; feeds of feeds",
	traps: map[string]trap{
		"nested":    sitemap(func(x exchange) string { return mapIndex + x.locs("sitemap", 20) + "</sitemapindex>" }),
		"rss":       sitemap(func(x exchange) string { return `<rss version="2.0"><channel>` + x.locs("item", 5) }),
		"bomb":      {serve: sitePage, robots: sitemapRobots(1)},
		"large":     sitemap(func(x exchange) string { return urlset + strings.Join(numbered(loc(x.url("/large/%d")), 200_000), "") }),
		"thousands": {serve: sitePage, robots: sitemapRobots(5000)},
		"others": sitemap(func(x exchange) string {
			return urlset + strings.Join(numbered(loc(x.w.url(x.f.name, "other%d", "/")), 2000), "") + loc(x.url("/forbidden/x")) + "</urlset>"
		}),
		"laughs": sitemap(func(exchange) string {
			var b strings.Builder
			b.WriteString(`<?xml version="1.0"?><!DOCTYPE u [<!ENTITY a "http://a.sitemaps.test/">`)
			for c := 'b'; c < 'z'; c++ {
				fmt.Fprintf(&b, "<!ENTITY %c \"%s\">", c, strings.Repeat(fmt.Sprintf("&%c;", c-1), 10))
			}
			return b.String() + "]><urlset><url><loc>&y;</loc></url></urlset>"
		}),
		"deep":  sitemap(func(exchange) string { return urlset + strings.Repeat("<url>", 1<<20) }),
		"plain": sitemap(func(x exchange) string { return x.url("/found") + "\n" }),
		"other": {unseed: true, serve: func(x exchange) { x.page("one of many") }},
	},
	check: func(j *judge) { j.wants("plain", "/found") },
}

const (
	urlset   = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
	mapIndex = `<?xml version="1.0"?><sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`
)

func loc(url string) string { return "<url><loc>" + url + "</loc></url>\n" }

// locs are elements that lead to more sitemaps.
func (x exchange) locs(element string, n int) (xml string) {
	inner := map[string]string{"sitemap": "loc", "item": "link"}[element]
	for _, k := range x.some(n) {
		xml += fmt.Sprintf("<%s><%s>%s</%s></%s>", element, inner, x.url(fmt.Sprintf("/sitemap/%d", k)), inner, element)
	}
	return xml
}

// sitemap serves a text as the only sitemap of a host.
func sitemap(text func(x exchange) string) trap {
	return trap{robots: sitemapRobots(1), serve: func(x exchange) {
		if strings.HasPrefix(x.r.URL.Path, "/sitemap/") {
			x.write("application/xml", text(x))
			return
		}
		sitePage(x)
	}}
}

// sitePage serves pages of one text, and sitemaps of one URL; those of the host bomb are gigabytes,
// compressed.
func sitePage(x exchange) {
	switch {
	case x.r.URL.Path == "/" || x.r.URL.Path == "/found":
		x.own()
	case !strings.HasPrefix(x.r.URL.Path, "/sitemap/"):
		x.page("one of many")
	case x.name == "bomb":
		x.bomb("gzip")
	default:
		x.write("application/xml", urlset+loc(x.url("/of"+x.r.URL.Path))+"</urlset>")
	}
}

func sitemapRobots(n int) func(x exchange) {
	return func(x exchange) {
		x.write(plainType, defaultRobots+"Sitemap: "+strings.Join(numbered(x.url("/sitemap/%d"), n), "\nSitemap: ")+"\n")
	}
}

// shareFamily takes more than a share: hosts of a page each whose own text leads to 8 hosts of as
// many new domains, without end; 400 sitemaps, each of 1,000 pages without a text. A good crawler
// takes ever fewer hosts of those that lead to no host it knows, and fetches pages before more
// sitemaps.
var shareFamily = family{
	name: "share",
	does: "hosts of ever new domains, 400 sitemaps of pages without a text",
	traps: map[string]trap{
		"maps": {
			robots: func(x exchange) {
				x.write(plainType, "Sitemap: "+strings.Join(numbered(x.url("/sitemap/%d"), shareMaps), "\nSitemap: ")+"\n")
			},
			serve: func(x exchange) {
				if !strings.HasPrefix(x.r.URL.Path, "/sitemap/") {
					x.page("maps")
					return
				}
				path := fmt.Sprintf("/of/%d/", x.number("/sitemap/%d"))
				x.write(plainType, strings.Join(numbered(x.url(path+"%d\n"), 1000), ""))
			},
		},
		"": {serve: func(x exchange) {
			var links []string
			for _, k := range x.some(8) {
				links = append(links, x.w.domain(x.f.name, fmt.Sprintf("d%x", k)))
			}
			x.page(x.r.Host, links...)
		}},
	},
	more:   func(w *world) []string { return []string{w.domain("share", "first")} },
	within: 2 * crawlWithin,
	check: func(j *judge) {
		domains := 0
		for _, h := range j.hosts {
			if strings.Contains(h.Host, "-of-share.test") {
				domains++
			}
		}
		if n := j.host("maps").Requests; n > mostShareMaps {
			j.blame("%d requests to the host of sitemaps, bound %d", n, mostShareMaps)
		}
		if most := mostShareHosts * len(j.peers); domains > most { // each peer has its own account of them
			j.blame("%d hosts of new domains were asked, bound %d", domains, most)
		}
	},
}

const (
	shareMaps = 400
	// mostShareMaps requests: sitemaps, pages in a row that end their pattern, and URLs that are out.
	mostShareMaps  = shareMaps + 1000 + 400
	mostShareHosts = 8_000
)
