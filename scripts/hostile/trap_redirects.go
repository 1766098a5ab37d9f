package main

import (
	"fmt"
	"net/http"
	"strings"
)

// Redirects.
//
// The trap: loops of one, two and many; chains through ever new URLs and ever new hosts; targets
// that are no web pages (file:, javascript:, ftp:, data:), other ports, with credentials, of a
// megabyte, relative in odd ways; from https to http.
//
// A good crawler treats a target as a link found: its robots.txt first, its host's delay, its
// budget; and stops following a chain.
var redirectsFamily = family{
	name:  "redirects",
	does:  "loops, endless chains through URLs and hosts, targets that are none, a Location of a megabyte",
	quick: true,
	seeds: func(w *world) []string {
		return append(w.urls("redirects", "self", "pair", "ring", "chain", "hosts", "schemes", "port", "credentials", "large", "many", "odd", "empty",
			"all", "forbidden", "downgrade"), w.secure("redirects", "downgrade"))
	},
	serve: serveRedirects,
	check: func(j *judge) {
		if n := len(j.w.audit.paths(j.w.host(j.family.name, "chain"))); n > mostHops {
			j.blame("redirects: a chain of redirects through new URLs was followed %d times, bound %d", n, mostHops)
		}
		if n := len(j.hosts); n > mostRedirectHosts {
			j.blame("redirects: %d hosts were asked, bound %d", n, mostRedirectHosts)
		}
	},
}

const (
	mostHops          = 200
	mostRedirectHosts = 200
)

func serveRedirects(w *world, rw http.ResponseWriter, r *http.Request, name string) {
	to := func(location string) {
		rw.Header()["Location"] = []string{location}
		rw.WriteHeader([]int{301, 302, 303, 307, 308}[hashOf(location)%5])
	}
	var n int
	_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
	switch last(name) {
	case "self":
		to(r.URL.Path)
	case "pair":
		to(w.url("redirects", "pair", map[bool]string{true: "/b", false: "/a"}[r.URL.Path == "/a"]))
	case "ring":
		to(fmt.Sprintf("/%d", (n+1)%30))
	case "chain":
		to(fmt.Sprintf("/%d", n+1))
	case "hosts":
		to(fmt.Sprintf("http://x%x.hosts.redirects.test:%d/", hashOf(r.Host), w.port))
	case "schemes":
		schemes := []string{
			"file:///etc/passwd", "javascript:alert(1)", "ftp://127.0.0.1/", "data:text/html,<a href=/poison>", "gopher://a/", "about:blank", "mailto:a@b.example",
			"unix:/run/x.sock", "view-source:http://a.example/", "jar:http://x!/", "ws://a.example/", "//", "http://", "http:", "https:///x", "\\\\127.0.0.1\\x",
		}
		if n > 0 && n <= len(schemes) {
			to(schemes[n-1])
			return
		}
		writePage(rw, page(r.Host, numbered("/%d", len(schemes)+1)[1:]...))
	case "port":
		to("http://port.redirects.test:1/")
	case "credentials":
		to(fmt.Sprintf("http://user:pass@credentials2.redirects.test:%d/", w.port))
	case "large":
		to("/" + strings.Repeat("a", 1<<20))
	case "many":
		rw.Header()["Location"] = strings.Split(strings.Repeat("/many,", 500)+"/m", ",")
		rw.WriteHeader(http.StatusFound)
	case "odd":
		to([]string{"?a=" + strings.Repeat("b", n), "../../../..", "./" + fmt.Sprint(n), "///" + r.Host + "/x", "/\x01\x02", "http:/x", "/%zz"}[min(n, 6)])
	case "empty":
		rw.WriteHeader(http.StatusFound)
	case "all": // all statuses of the class, those without a meaning too
		if r.URL.Path == "/" {
			var links []string
			for s := 300; s < 400; s += 3 {
				links = append(links, fmt.Sprintf("/%d", s))
			}
			writePage(rw, page(r.Host, links...))
			return
		}
		rw.Header().Set("Location", "/")
		rw.WriteHeader(max(n, 300))
	case "forbidden":
		to("/forbidden/x")
	case "downgrade":
		if r.TLS != nil {
			to(w.url("redirects", "downgrade", "/plain"))
			return
		}
		if r.URL.Path == "/" {
			to(w.secure("redirects", "downgrade"))
			return
		}
		writePage(rw, page(r.URL.Path))
	default:
		if strings.HasSuffix(name, ".hosts") {
			to(fmt.Sprintf("http://x%x.hosts.redirects.test:%d/", hashOf(r.Host), w.port))
			return
		}
		writePage(rw, page(r.Host))
	}
}
