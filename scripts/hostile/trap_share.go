package main

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// More than a share.
//
// The trap: hosts of a page each that says something of its own and leads to 8 hosts of as many new
// domains, without end; an index of 400 sitemaps, each of which names 1,000 pages that say nothing.
//
// A good crawler takes fewer and fewer hosts of those that lead to no host it knows, and none at
// last, and looks at pages before it asks for more sitemaps.
var shareFamily = family{
	name: "share",
	does: "hosts of ever new domains, 400 sitemaps of pages that say nothing",
	seeds: func(w *world) []string {
		return append(w.urls("share", "maps"), shareURL(w, "first"))
	},
	serve:     serveShare,
	ownRobots: true,
	within:    6 * time.Minute,
	check: func(j *judge) {
		domains := 0
		for _, h := range j.hosts {
			if strings.Contains(h.Host, "-of-share.test") {
				domains++
			}
			if strings.HasPrefix(h.Host, "maps.") && h.Requests > mostShareMaps {
				j.blame("share: %d requests to %s, whose pages say nothing, bound %d", h.Requests, h.Host, mostShareMaps)
			}
		}
		if most := mostShareHosts * len(j.peers); domains > most { // each peer has its own account of them
			j.blame("share: %d hosts of new domains were asked, bound %d", domains, most)
		}
	},
}

const (
	shareMaps = 400
	// mostShareMaps requests: sitemaps, pages in a row that end their pattern, and URLs that are out.
	mostShareMaps  = shareMaps + 1000 + 400
	mostShareHosts = 8_000
)

// shareURL is the root of a host of a domain of its own that belongs to the family.
func shareURL(w *world, name string) string {
	return fmt.Sprintf("http://%s-of-share.test:%d/", name, w.port)
}

func serveShare(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	var of int
	n, _ := fmt.Sscanf(r.URL.Path, "/sitemap/%d", &of)
	switch {
	case r.URL.Path == "/robots.txt" && name == "maps":
		for i := range shareMaps {
			_, _ = fmt.Fprintf(rw, "Sitemap: %s\n", w.url("share", "maps", fmt.Sprintf("/sitemap/%d", i)))
		}
	case r.URL.Path == "/robots.txt":
		_, _ = fmt.Fprint(rw, defaultRobots)
	case name == "maps" && n == 1:
		rw.Header().Set("Content-Type", "text/plain")
		for i := range 1000 {
			_, _ = fmt.Fprintln(rw, w.url("share", "maps", fmt.Sprintf("/of/%d/%d", of, i)))
		}
	case name == "maps":
		writePage(rw, page("maps"))
	default:
		var links []string
		for _, k := range some(r, 8) {
			links = append(links, shareURL(w, fmt.Sprintf("d%x", k)))
		}
		writePage(rw, page(r.Host, links...))
	}
}
