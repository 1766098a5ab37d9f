package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
)

// Links by the million.
//
// The trap: a page names 200,000 hosts, of one domain or of as many domains; a page has 50,000 URLs
// of its own host that all show the same, of which robots.txt leaves 2,000 open; a domain has
// another five subdomains behind each page, without end; URLs are as long as they like.
//
// A good crawler takes so many links of a page and so many new hosts of a page and of a domain,
// counts what it left, and answers its own people meanwhile. It stops at a host that shows the same
// page under every URL.
var linksFamily = family{
	name: "links",
	does: "200,000 host names in a page, 50,000 URLs of a host, farms of subdomains, 30,000 ports, URLs of any length",
	seeds: func(w *world) []string {
		return w.urls("links", "hosts", "domains", "wide", "farm", "long", "query", "ports")
	},
	serve: serveLinks,
	robots: func(_ *world, name string) string {
		if name == "wide" { // 2,000 of the 50,000 may be asked for
			return defaultRobots + "Disallow: /w/\nAllow: /w/00\nAllow: /w/01\n"
		}
		return ""
	},
	check: func(j *judge) {
		ports := 0
		for url, outcome := range j.urls {
			if strings.HasPrefix(url, "http://scan.links.test:") && outcome != "out_of_budget" { // that was not let in
				ports++
			}
		}
		if ports > mostPorts {
			j.blame("links: %d ports of one name were tried, bound %d", ports, mostPorts)
		}
		if n := len(j.hosts); n > mostLinkHosts {
			j.blame("links: %d hosts were asked, bound %d", n, mostLinkHosts)
		}
	},
}

const (
	hostsOfAPage  = 200_000
	urlsOfAPage   = 50_000
	mostLinkHosts = 5000
	portsOfAPage  = 30_000
	mostPorts     = 1000
)

func serveLinks(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	rw.Header().Set("Content-Type", "text/html")
	link := func(format string, args ...any) { fmt.Fprintf(rw, "<a href=\"http://"+format+"\">x</a>\n", args...) }
	switch last(name) {
	case "hosts":
		for i := range hostsOfAPage {
			link("n%d.links.test:%d/", i, w.port)
		}
	case "domains":
		for i := range hostsOfAPage {
			link("n%d-of-links.test:%d/", i, w.port)
		}
	case "ports": // every port is a host of its own; nothing listens there
		for i := range portsOfAPage {
			fmt.Fprintf(rw, "<a href=\"http://scan.links.test:%d/\">x</a>\n", 20_000+i)
		}
	case "wide":
		if r.URL.Path == "/" {
			for i := range urlsOfAPage {
				fmt.Fprintf(rw, "<a href=/w/%05d>x</a>\n", i)
			}
			return
		}
		_, _ = io.WriteString(rw, page("wide"))
	case "farm":
		for i := range 5 {
			link("s%x.%s/", hashOf(fmt.Sprint(r.Host, r.URL.Path, i)), r.Host)
		}
		_, _ = io.WriteString(rw, prose(r.Host, 80))
	case "long":
		for _, n := range []int{1 << 10, 2 << 10, 8 << 10, 15 << 10, 17 << 10, 64 << 10, 1 << 20} {
			fmt.Fprintf(rw, "<a href=\"/%s\">x</a>\n", strings.Repeat("a", n))
		}
	case "query":
		fmt.Fprintf(rw, "<a href=\"/?%s\">x</a>\n", strings.Repeat("a=b&", 200_000))
	default:
		_, _ = io.WriteString(rw, page(r.Host))
	}
}

// last is the label of a name that says what the trap is: that next to the family's domain.
func last(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }
