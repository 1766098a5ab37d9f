package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/trap/traptest"
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
		if n := len(j.hosts); n > mostLinkHosts {
			j.blame("%d hosts were asked, bound %d", n, mostLinkHosts)
		}
	},
}

const (
	hostsOfAPage = 200_000
	urlsOfAPage  = 50_000
	portsOfAPage = 30_000
	mostPorts    = 1000

	mostLinkHosts = 5000
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
	does:  "endless chains through URLs and hosts, a Location of a megabyte, to what robots.txt forbids",
	quick: true,
	traps: map[string]trap{
		"chain":     {serve: redirects(func(x exchange) string { return fmt.Sprintf("/%d", x.number("/%d")+1) })},
		"hosts":     {serve: redirects(func(x exchange) string { return x.w.url(x.f.name, fmt.Sprintf("x%x.hosts", hashOf(x.r.Host)), "/") })},
		"large":     {serve: redirects(func(exchange) string { return "/" + strings.Repeat("a", 1<<20) })},
		"forbidden": {serve: redirects(func(exchange) string { return "/forbidden/x" })},
	},
	check: func(j *judge) {
		if n := len(j.host("chain").log); n > mostHops {
			j.blame("a chain of redirects through new URLs was followed %d times, bound %d", n, mostHops)
		}
		if n := len(j.hosts); n > mostHops {
			j.blame("%d hosts were asked, bound %d", n, mostHops)
		}
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
		for name := range documents {
			j.wants(name, "/found")
		}
	},
}

const (
	docBytes  = 6 << 20
	foundLink = `<a href="/found">found</a>`
)

// documents follow foundLink.
var documents = map[string]func() string{
	"nested":     func() string { return times("<div>", docBytes) },
	"formatting": func() string { return times("<a><b><i><p>", docBytes) },
	"attributes": func() string { return "<p " + strings.Join(numbered("a%d=b ", 400_000), "") + ">" },
	"longattr":   func() string { return `<a href="/` + times("a", docBytes) + `">x</a>` },
	"comment":    func() string { return "<!-- " + times(`<a href="/no">`, docBytes) },
	"script":     func() string { return "<script>" + times("<!--<script>", docBytes) },
	"quotes":     func() string { return times(`<a href="`, docBytes) },
	"entities":   func() string { return `<a href="/` + times("&amp;&lt;&notit;", 1<<20) + `">x</a>` },
	"links":      func() string { return times(`<a href="/same">x</a>`, docBytes) },
	"templates":  func() string { return times("<template><noscript><select>", docBytes) },
}

func documentTraps() map[string]trap {
	traps := make(map[string]trap)
	for name, text := range documents {
		traps[name] = trap{serve: func(x exchange) {
			if x.r.URL.Path == "/" {
				x.write("text/html", foundLink+text())
				return
			}
			x.own()
		}}
	}
	return traps
}

// sitemapsFamily has sitemaps without end. A good crawler limits the sitemaps of a host and the
// URLs of each, treats each URL as a link, and stops at the limit of a file. Forms of sitemaps are
// in crawl/extract: TestSitemap, TestSitemapBounds.
var sitemapsFamily = family{
	name: "sitemaps",
	does: "indexes of indexes, sitemaps of a gigabyte, of 200,000 URLs, of entities",
	traps: map[string]trap{
		"nested": sitemap(func(x exchange) string {
			var maps strings.Builder
			for _, k := range x.some(20) {
				fmt.Fprintf(&maps, "<sitemap><loc>%s</loc></sitemap>", x.url(fmt.Sprintf("/sitemap/%d", k)))
			}
			return "<sitemapindex>" + maps.String() + "</sitemapindex>"
		}),
		"bomb":      {serve: sitePage, robots: sitemapRobots(1)},
		"large":     sitemap(func(x exchange) string { return urlset + strings.Join(numbered(loc(x.url("/large/%d")), 200_000), "") }),
		"thousands": {serve: sitePage, robots: sitemapRobots(5000)},
		"laughs": sitemap(func(exchange) string {
			var entities strings.Builder
			for c := 'b'; c < 'z'; c++ {
				fmt.Fprintf(&entities, "<!ENTITY %c \"%s\">", c, strings.Repeat(fmt.Sprintf("&%c;", c-1), 10))
			}
			return `<!DOCTYPE u [<!ENTITY a "http://a.sitemaps.test/">` + entities.String() + "]><urlset><url><loc>&y;</loc></url></urlset>"
		}),
		"plain": sitemap(func(x exchange) string { return x.url("/found") + "\n" }),
	},
	check: func(j *judge) { j.wants("plain", "/found") },
}

const urlset = `<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`

func loc(url string) string { return "<url><loc>" + url + "</loc></url>\n" }

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
// many new domains, without end; domains of ever more hosts of three pages that are all alike,
// which lead to each other by links and by redirects; 400 sitemaps, each of 1,000 pages without a
// text. A good crawler takes ever fewer hosts of those that lead to no host it knows, compares the
// hosts of a domain, and fetches pages before more sitemaps. See also crawl/owner:
// TestFarmOfDomains.
var shareFamily = family{
	name: "share",
	does: "hosts of ever new domains, ever more small hosts of a domain, 400 sitemaps of pages without a text",
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
		"farm": {unseed: true, serve: farmPage},
		"hops": {unseed: true, serve: farmPage},
		"": {serve: func(x exchange) {
			var links []string
			for _, k := range x.some(8) {
				links = append(links, x.w.domain(x.f.name, fmt.Sprintf("d%x", k)))
			}
			x.page(x.r.Host, links...)
		}},
	},
	more: func(w *world) []string {
		return []string{w.domain("share", "first"), w.domain("share", "start.farm"), w.domain("share", "start.hops")}
	},
	within: 2 * crawlWithin,
	check: func(j *judge) {
		domains, small := 0, make(map[string]int)
		for _, h := range j.hosts {
			switch _, of, _ := strings.Cut(h.Host, "."); {
			case strings.Contains(of, "-of-share.test"):
				small[of]++
			case strings.Contains(h.Host, "-of-share.test"):
				domains++
			}
		}
		for of, n := range small {
			if n > mostSmallHosts {
				j.blame("%d hosts of %s, which are all alike, were asked, bound %d", n, of, mostSmallHosts)
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
	// mostShareMaps requests: sitemaps, pages in a row that end their pattern, and URLs that are
	// out.
	mostShareMaps  = shareMaps + 1000 + 400
	mostShareHosts = 8_000
	mostSmallHosts = 1000 // the budget of a domain that no other domain links to
)

// farmPage is one of the three pages of a host of a farm; the last of them leads to more hosts, or
// to redirects to such.
func farmPage(x exchange) {
	if to, ok := strings.CutPrefix(x.name, "to-"); ok {
		http.Redirect(x.rw, x.r, x.w.domain(x.f.name, to), http.StatusFound)
		return
	}
	if x.number("/%d") < 2 {
		x.page("small site", "/1", "/2")
		return
	}
	var links []string
	for _, k := range x.some(5) {
		host := fmt.Sprintf("s%x.farm", k)
		if strings.HasSuffix(x.name, ".hops") {
			host = fmt.Sprintf("to-s%x.hops", k)
		}
		links = append(links, x.w.domain(x.f.name, host))
	}
	x.page("small site", links...)
}

// spacesFamily has spaces of URLs without end: the endless sites of traptest, one page under any
// number of URLs, and pages that lead on by other means than a link. A good crawler notices that a
// host brings little that is new, asks it less and then not at all; where it does not notice, a
// budget of requests holds. See also crawl/trap: TestTraps, TestEndlessSites.
var spacesFamily = family{
	name:     "spaces",
	within:   10 * time.Minute,
	requests: 2 * mostOfTheSame,
	does:     "endless sites, one page under any number of URLs, redirects, frames, bases and fields that lead on",
	traps:    spacesTraps(),
	check: func(j *judge) {
		for _, h := range j.hosts {
			name, _, _ := strings.Cut(h.Host, ".")
			if h.Requests > mostOfTheSame && !slices.Contains(everNew, name) {
				j.blame("%s, which brings nothing new, was asked %d times, bound %d", name, h.Requests, mostOfTheSame)
			}
		}
	},
}

// everNew are spaces in which ever new texts occur, and the calendar, which takes long: only a
// budget ends the crawl of these. The others end before mostOfTheSame requests.
var everNew = []string{"labyrinth", "markov", "near", "search", "errors", "calendar"}

const mostOfTheSame = 6000

func spacesTraps() map[string]trap {
	traps := make(map[string]trap)
	for _, s := range traptest.Endless() {
		traps[s.Name] = trap{serve: func(x exchange) {
			if x.r.URL.Path == "/" && s.Start != "/" {
				http.Redirect(x.rw, x.r, s.Start, http.StatusFound)
				return
			}
			x.site(&s)
		}}
	}
	for name, serve := range spaces {
		traps[name] = trap{serve: serve}
	}
	return traps
}

var spaces = map[string]func(x exchange){
	"case": func(x exchange) {
		var links []string
		for _, n := range x.some(5) {
			link := []byte("the-same-page-again-and-again")
			for i, c := range link {
				if n>>i&1 == 1 && c != '-' {
					link[i] -= 'a' - 'A'
				}
			}
			links = append(links, "/"+string(link))
		}
		x.page("case", links...)
	},
	"mirror": func(x exchange) {
		x.page(x.r.URL.Path[strings.LastIndexByte(x.r.URL.Path, '/'):], x.links("/m%x/a")...)
	},
	"slashes": func(x exchange) {
		x.page("slashes", x.r.URL.Path+"/", "/"+x.r.URL.Path, strings.Replace(x.r.URL.Path, "/", "//", 1)+"p")
	},

	"errors": func(x exchange) { // each page leads to more that are not there
		if x.r.URL.Path != "/" && hashOf(x.r.URL.Path)%4 != 0 {
			http.NotFound(x.rw, x.r)
			return
		}
		x.own(append(x.links("/%d"), x.links("/a/%d")...)...)
	},
	"moves": func(x exchange) {
		n := x.number("/%d")
		if n%2 == 1 {
			http.Redirect(x.rw, x.r, fmt.Sprintf("/%d", n+1), http.StatusFound)
			return
		}
		x.page("moves", fmt.Sprintf("/%d", 2*n+1), fmt.Sprintf("/%d", 2*n+3))
	},
}
