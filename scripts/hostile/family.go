package main

import (
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// family is a family of traps. Its hosts are NAME.FAMILY.test; that of the name "good" is an
// ordinary site of the server's own, which must be crawled whole whatever the others do.
type family struct {
	name  string
	does  string // what the trap does
	quick bool   // ends within seconds, and goes into the gate
	// seeds are where the crawl begins, besides the good site.
	seeds func(w *world) []string
	// serve answers a request for a host of the family, robots.txt aside unless ownRobots is set.
	// Name is the host without the family's domain.
	serve     func(w *world, rw http.ResponseWriter, r *http.Request, name string)
	ownRobots bool
	// robots is the text of robots.txt for hosts whose answer the framework gives; empty: that of
	// defaultRobots.
	robots func(w *world, name string) string
	// disallowed says which requests robots.txt forbids, besides what lies below /forbidden/.
	disallowed func(name, path string) bool
	// resolve answers for names of the family in the DNS; nil, or an answer of nil, leaves it to
	// the server: an address that hangs on the name.
	resolve func(w *world, name string, q dns.Question, m *dns.Msg) *dns.Msg
	// hello may hold up or break the TLS handshake; nil: an ordinary one.
	hello tlsTrap
	// h2 speaks HTTP/2 itself, frame by frame; nil: the library does.
	h2 func(w *world, h *h2Conn, name string, stream uint32)
	// within bounds the crawl of a trial of its own; zero: crawlWithin.
	within time.Duration
	// requests bounds what one host may be asked; zero: hostRequests.
	requests int
	// needsPrefix: the trap is none for a peer that can only allow all private addresses.
	needsPrefix bool
	// check judges what only this family knows.
	check func(j *judge)
}

// families in the order of the table. It is filled in when the program begins, since traps look
// into it.
var families []*family

func allFamilies() []*family {
	return []*family{
		&linksFamily, &bodiesFamily, &dripsFamily, &http1Family, &http2Family, &tlsFamily, &redirectsFamily, &robotsFamily, &waitsFamily, &hangsFamily, &slowFamily, &spacesFamily,
		&mixedFamily,
		&namesFamily, &dnsFamily, &guardFamily, &documentsFamily, &sitemapsFamily, &mannersFamily, &chainsFamily, &rulesFamily, &shareFamily,
	}
}

func byName(name string) *family {
	for _, f := range families {
		if f.name == name {
			return f
		}
	}
	return nil
}

func quickFamilies() []*family {
	var quick []*family
	for _, f := range families {
		if f.quick {
			quick = append(quick, f)
		}
	}
	return quick
}

// Bounds of a trial where the family does not say otherwise.
const (
	crawlWithin  = 3 * time.Minute
	hostRequests = budget + 100
)

// scope is what a job of the family may visit: its domain, and domains of their own that belong to
// it (see split).
func (f *family) scope() []string { return []string{"*." + f.domain(), "*-of-" + f.domain()} }

// domain is what the family's hosts lie in.
func (f *family) domain() string { return f.name + ".test" }

// host is a host of the family, with the port of HTTP.
func (w *world) host(family, name string) string {
	return fmt.Sprintf("%s.%s.test:%d", name, family, w.port)
}

// url is a URL of HTTP, secure the root of a host over HTTPS.
func (w *world) url(family, name, path string) string { return "http://" + w.host(family, name) + path }

func (w *world) secure(family, name string) string {
	return fmt.Sprintf("https://%s.%s.test:%d/", name, family, w.port+1)
}

// urls are the roots of several hosts, secures those over HTTPS.
func (w *world) urls(family string, names ...string) (urls []string) {
	for _, name := range names {
		urls = append(urls, w.url(family, name, "/"))
	}
	return urls
}

func (w *world) secures(family string, names ...string) (urls []string) {
	for _, name := range names {
		urls = append(urls, w.secure(family, name))
	}
	return urls
}

// numbered are n texts, each with its number from 0 on.
func numbered(format string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}

// defaultRobots closes a part of each host that links lead to.
const defaultRobots = "User-agent: *\nDisallow: /forbidden/\n"

// goodPages is how many pages an ordinary site has.
const goodPages = 20

// goodSite serves pages with a text of their own each, one leading to the next two, and all to what
// robots.txt forbids.
func goodSite(rw http.ResponseWriter, r *http.Request) {
	n := 0
	if r.URL.Path != "/" {
		if _, err := fmt.Sscanf(r.URL.Path, "/p%d", &n); err != nil || n < 1 || n >= goodPages {
			http.NotFound(rw, r)
			return
		}
	}
	links := []string{"/forbidden/x"}
	for i := 2*n + 1; i <= 2*n+2 && i < goodPages; i++ {
		links = append(links, fmt.Sprintf("/p%d", i))
	}
	writePage(rw, page(r.Host+r.URL.Path, links...))
}

// goodPaths are the paths of an ordinary site.
func goodPaths() []string { return append([]string{"/"}, numbered("/p%d", goodPages)[1:]...) }

// page is a page with a text that hangs on the seed, and links.
func page(seed string, links ...string) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>" + html.EscapeString(seed) + "</title></head><body>\n<p>" + prose(seed, 120) + "</p>\n")
	for _, l := range links {
		b.WriteString(`<a href="` + html.EscapeString(l) + `">` + html.EscapeString(l) + "</a>\n")
	}
	b.WriteString("</body></html>\n")
	return b.String()
}

func writePage(rw http.ResponseWriter, body string) {
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(rw, body)
}

// prose is a text of made-up words, another one for each seed.
func prose(seed string, words int) string {
	const syllables = "ba be bo da de do fa fe fi ga go ka ke ki la le lo ma me mo na ne no pa pe po ra re ro sa se so ta te to va ve vi za ze zo"
	parts := strings.Fields(syllables)
	rng := rand.New(rand.NewPCG(hashOf(seed), 1))
	var b strings.Builder
	for i := range words {
		if i > 0 {
			b.WriteByte(' ')
		}
		for range 2 + rng.IntN(3) {
			b.WriteString(parts[rng.IntN(len(parts))])
		}
	}
	return b.String()
}

func hashOf(s string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, s)
	return h.Sum64()
}
