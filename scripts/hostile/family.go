package main

import (
	"crypto/tls"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/apoidea/apoidea/crawl/trap/traptest"
)

// family is a family of traps. Its hosts are NAME.FAMILY.test; that of the name "good" is an
// ordinary site, which must be crawled completely whatever the others do.
type family struct {
	name  string
	does  string // what the traps do, for the usage message
	quick bool   // ends within seconds; part of --quick
	// traps are the hosts by kind: a host is of the kind that is its name, or the last label of its
	// name, without digits at the end. Kind "" is that of all others.
	traps map[string]trap
	// more are further seeds.
	more func(w *world) []string
	// disallowed reports which requests robots.txt forbids; nil: those below /forbidden/.
	disallowed func(name, path string) bool
	// resolve answers DNS questions for the family's names. With handled false the server returns
	// an address that is derived from the name.
	resolve func(w *world, name string, q dns.Question, m *dns.Msg) (reply *dns.Msg, handled bool)
	// hello returns the configuration of a TLS handshake, or an error that ends it. Without it, or
	// with nil of both, the handshake is an ordinary one.
	hello func(w *world, hello *tls.ClientHelloInfo, name string) (*tls.Config, error)
	// within bounds the crawl of a trial of its own; zero: crawlWithin.
	within time.Duration
	// requests bounds the requests to one host; zero: hostRequests.
	requests int
	// anyScope: the crawl's scope is everything, as URLs out of scope would never be dialed.
	anyScope bool
	// check judges what is specific to the family.
	check func(j *judge)
	// site is set if the family is a real site of the legit trials, which has no good host.
	site *traptest.Site
}

// trap is what the hosts of one kind do.
type trap struct {
	hosts  int              // seeds, numbered from 0; zero: one seed without a number
	unseed bool             // not a seed
	https  bool             // the seeds' scheme
	serve  func(x exchange) // nil: 404
	robots func(x exchange) // serves robots.txt; nil: defaultRobots
	h2     h2Flood          // HTTP/2 frames after any request, without net/http
}

// Bounds of a trial where the family sets no other.
const (
	crawlWithin  = 3 * time.Minute
	hostRequests = budget + 100
)

// families are those of the trials, in the order of the table. The list is filled when the program
// starts, since traps refer to it.
var families []*family

func hostileFamilies() []*family {
	return []*family{
		&linksFamily, &bodiesFamily, &dripsFamily, &http1Family, &http2Family, &tlsFamily, &redirectsFamily,
		&waitsFamily, &spacesFamily, &dnsFamily, &guardFamily, &documentsFamily, &sitemapsFamily, &mannersFamily, &chainsFamily,
		&rulesFamily, &shareFamily,
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

// kind finds the trap of a host by its name within the family.
func (f *family) kind(name string) trap {
	name = name[strings.LastIndexByte(name, '.')+1:]
	for _, kind := range []string{name, strings.TrimRight(name, "0123456789")} {
		if t, ok := f.traps[kind]; ok {
			return t
		}
	}
	return f.traps[""]
}

// seeds are the URLs where a crawl of the family starts, the good site first.
func (f *family) seeds(w *world) (urls []string) {
	if f.site != nil {
		return []string{w.url(f.name, "www", f.site.Start)}
	}
	urls = w.urls(f.name, "good")
	for _, kind := range slices.Sorted(maps.Keys(f.traps)) {
		t := f.traps[kind]
		names := []string{kind}
		if t.hosts > 0 {
			names = numbered(kind+"%d", t.hosts)
		}
		switch {
		case t.unseed || kind == "":
		case t.https:
			urls = append(urls, w.secures(f.name, names...)...)
		default:
			urls = append(urls, w.urls(f.name, names...)...)
		}
	}
	if f.more != nil {
		urls = append(urls, f.more(w)...)
	}
	return urls
}

// scope is what a job of the family may visit: its domain, and domains of their own that belong to
// it (see split).
func (f *family) scope() []string {
	if f.anyScope {
		return []string{"*"}
	}
	return []string{"*." + f.name + ".test", "*-of-" + f.name + ".test"}
}

// host is a host of the family, with the port of HTTP.
func (w *world) host(family, name string) string {
	return fmt.Sprintf("%s.%s.test:%d", name, family, w.port)
}

// domain is the root of a host of a registrable domain of its own that belongs to the family.
func (w *world) domain(family, name string) string {
	return fmt.Sprintf("http://%s-of-%s.test:%d/", name, family, w.port)
}

func (w *world) url(family, name, path string) string { return "http://" + w.host(family, name) + path }

// urls are the roots of several hosts, secures those over HTTPS.
func (w *world) urls(family string, names ...string) (urls []string) {
	for _, name := range names {
		urls = append(urls, w.url(family, name, "/"))
	}
	return urls
}

func (w *world) secures(family string, names ...string) (urls []string) {
	for _, name := range names {
		urls = append(urls, fmt.Sprintf("https://%s.%s.test:%d/", name, family, w.port+1))
	}
	return urls
}

// exchange is a request with all that is needed to answer it.
type exchange struct {
	w    *world
	rw   http.ResponseWriter
	r    *http.Request
	f    *family
	name string // of the host within the family
}

// url is a URL of the same host.
func (x exchange) url(path string) string { return x.w.url(x.f.name, x.name, path) }

// write sends text of a content type.
func (x exchange) write(kind, text string) {
	x.rw.Header().Set("Content-Type", kind)
	_, _ = io.WriteString(x.rw, text)
}

// page sends a page whose text is derived from the seed, with links.
func (x exchange) page(seed string, links ...string) { x.write(htmlType, page(seed, links...)) }

// own sends a page with a text of its own.
func (x exchange) own(links ...string) { x.page(x.r.Host+x.r.RequestURI, links...) }

// number is the first number in the path, by a format such as "/%d"; 0 if there is none.
func (x exchange) number(format string) (n int) {
	_, _ = fmt.Sscanf(x.r.URL.Path, format, &n)
	return n
}

const (
	htmlType  = "text/html; charset=utf-8"
	plainType = "text/plain"
)

// numbered are n texts, each with its number from 0 on.
func numbered(format string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}

// defaultRobots forbids a part of each host that links lead to.
const defaultRobots = "User-agent: *\nDisallow: /forbidden/\n"

// goodPages is how many pages an ordinary site has.
const goodPages = 20

// goodSite serves pages with a text of their own each, one leading to the next two, and all to what
// robots.txt forbids.
func goodSite(x exchange) {
	n := x.number("/p%d")
	if x.r.URL.Path != "/" && (n < 1 || n >= goodPages) {
		http.NotFound(x.rw, x.r)
		return
	}
	links := []string{"/forbidden/x"}
	for i := 2*n + 1; i <= 2*n+2 && i < goodPages; i++ {
		links = append(links, fmt.Sprintf("/p%d", i))
	}
	x.own(links...)
}

// goodPaths are the paths of an ordinary site.
func goodPaths() []string { return append([]string{"/"}, numbered("/p%d", goodPages)[1:]...) }

// page is a page with a text that is derived from the seed, and links.
func page(seed string, links ...string) string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>" + html.EscapeString(seed) + "</title></head><body>\n<p>" + prose(seed, 120) + "</p>\n")
	for _, l := range links {
		b.WriteString(`<a href="` + html.EscapeString(l) + `">` + html.EscapeString(l) + "</a>\n")
	}
	b.WriteString("</body></html>\n")
	return b.String()
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

// times repeats a text up to a number of bytes.
func times(piece string, bytes int) string { return strings.Repeat(piece, bytes/len(piece)) }

// some are a few numbers that are derived from a URL.
func (x exchange) some(n int) []int {
	rng := rand.New(rand.NewPCG(hashOf(x.r.Host+x.r.RequestURI), 2))
	out := make([]int, n)
	for i := range out {
		out[i] = rng.IntN(1 << 30)
	}
	return out
}

// links are five links with numbers that are derived from the URL.
func (x exchange) links(format string) (links []string) {
	for _, n := range x.some(5) {
		links = append(links, fmt.Sprintf(format, n))
	}
	return links
}
