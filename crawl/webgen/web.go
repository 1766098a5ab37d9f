package webgen

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Web is a synthetic web with the audit of the requests to it.
type Web struct {
	cfg   Config
	words block
	arity int // children of a page in the tree that keeps most pages reachable
	audit *audit

	begun   time.Time  // the start of Changes
	start   int64      // the same in their Unix seconds
	logging sync.Mutex // held while Log is written
}

// New returns the web of cfg. It starts nothing.
func New(cfg Config) *Web {
	cfg = cfg.withDefaults()
	w := &Web{cfg: cfg, arity: min(8, cfg.Links)}
	w.words = newBlock(rng(w.draw(saltWords, 0, 0)))
	w.audit = &audit{hosts: make([]atomic.Pointer[hostAudit], cfg.Hosts)}
	w.begun, w.start = time.Now(), maxUnix
	for _, pages := range cfg.Changes {
		for _, times := range pages {
			w.start = min(w.start, times[0])
		}
	}
	return w
}

// Scheme returns http or https.
func (w *Web) Scheme() string {
	if w.cfg.HTTPS {
		return "https"
	}
	return "http"
}

// Seeds returns the URL of each host's first page, for a server that listens on port (80 is omitted
// from the URLs).
func (w *Web) Seeds(port int) []string {
	seeds := make([]string, w.cfg.Hosts)
	for h := range seeds {
		seeds[h] = string(w.appendURL(nil, place{h, 0}, portSuffix(port)))
	}
	return seeds
}

// place identifies a page: a host and a number on it.
type place struct{ host, page int }

// kind determines the answer of a page.
type kind uint8

const (
	plain     kind = iota // 200 with a body of its own
	duplicate             // 200 with the body of another page
	redirect              // 3xx
	gone                  // 404 or 410, always
	flaky                 // 500 or 503 at first, then as plain
	slow                  // as plain, after a wait
)

// kindOf draws the kind of a page. The first page of a host is always plain, as crawls start there.
func (w *Web) kindOf(p place) kind {
	if p.page == 0 {
		return plain
	}
	u := unit(w.draw(saltKind, p.host, p.page))
	if u -= w.cfg.DuplicateShare; u < 0 {
		return duplicate
	}
	if u -= w.cfg.RedirectShare; u < 0 {
		return redirect
	}
	if u -= w.cfg.ErrorShare; u < 0 {
		switch f := unit(w.draw(saltFault, p.host, p.page)); {
		case f < 0.5:
			return gone
		case f < 0.8:
			return flaky
		default:
			return slow
		}
	}
	return plain
}

// sections is the number of directories of a host's pages.
const sections = 16

// pages returns the number of pages of a host.
func (w *Web) pages(host int) int {
	if w.cfg.Changes != nil {
		return len(w.cfg.Changes[host]) + 1
	}
	mean, shape := w.cfg.PagesPerHost, w.cfg.Pareto
	if shape <= 1 {
		return mean
	}
	least := float64(mean) * (shape - 1) / shape
	n := least * math.Pow(1-unit(w.draw(saltPages, host, 0)), -1/shape)
	return int(min(max(n, 1), 50*float64(mean), maxCount))
}

// body returns the page whose body p serves: p itself, except for duplicates. The other page is in
// a section of the same name, so that every relative link in it is valid here as well.
func (w *Web) body(p place) place {
	if w.kindOf(p) != duplicate {
		return p
	}
	r := rng(w.draw(saltDuplicate, p.host, p.page))
	rows := w.pages(p.host) / sections
	for range 16 {
		if rows == 0 {
			break
		}
		o := place{p.host, r.below(rows)*sections + p.page%sections}
		if r.next()&1 == 0 && w.cfg.Pareto <= 1 {
			o.host = r.below(w.cfg.Hosts)
		}
		if o.page != 0 && w.kindOf(o) == plain {
			return o
		}
	}
	return p // the web is too small for an original
}

// Answer describes a page of a host for package webtruth: its URL at a port, "page", "redirect",
// "gone" or "disallowed", the page whose body it has, and the pages that a crawler finds in it.
func (w *Web) Answer(host, page, port int) (url, kind string, body [2]int, links [][2]int) {
	p := place{host, page}
	url = string(w.appendURL(nil, p, portSuffix(port)))
	if !w.rulesOf(host).allows(page) {
		return url, "disallowed", body, nil
	}
	switch w.kindOf(p) {
	case redirect:
		to, _ := w.target(p)
		return url, "redirect", body, [][2]int{{to.host, to.page}}
	case gone:
		return url, "gone", body, nil
	}
	of := w.body(p)
	all := w.linksOf(of)
	for l, more := all.next(); more && !w.marksOf(of).nofollow; l, more = all.next() {
		if l.to.host == here {
			l.to.host = host
		}
		if !l.trap {
			links = append(links, [2]int{l.to.host, l.to.page})
		}
	}
	return url, "page", [2]int{of.host, of.page}, links
}

// Redirect chains: a redirect of rank 3 leads to one of rank 2, that to one of rank 1, that to a
// page. So there are no cycles, and a crawler with the usual five hops reaches the end of each.
const maxRank = 3

// rank returns the number of redirects from p to the final page.
func (w *Web) rank(p place) int {
	if w.kindOf(p) != redirect {
		return 0
	}
	return 1 + scale(w.draw(saltRedirect, p.host, p.page), maxRank)
}

var redirectCodes = [...]int{301, 302, 303, 307, 308}

// target returns the target and the status of the redirect p.
func (w *Web) target(p place) (to place, code int) {
	want := w.rank(p) - 1
	r := rng(w.draw(saltRedirect, p.host, p.page))
	code = redirectCodes[r.below(len(redirectCodes))]
	cross := unit(r.next()) < w.cfg.CrossHostShare
	for range 256 {
		to = place{p.host, r.below(w.pages(p.host))}
		if cross {
			to.host = r.below(w.cfg.Hosts)
			to.page %= w.pages(to.host)
		}
		if w.rank(to) == want {
			return to, code
		}
	}
	return place{to.host, 0}, code
}

// marks are a body's directives for robots.
type marks struct{ nofollow, noindex, header bool }

func (w *Web) marksOf(body place) marks {
	if body.page == 0 {
		return marks{}
	}
	d := w.draw(saltMarks, body.host, body.page)
	return marks{
		nofollow: unit(mix(d)) < w.cfg.NofollowShare,
		noindex:  unit(mix(d+1)) < w.cfg.NoindexShare,
		header:   d&1 == 0,
	}
}

// orphan reports whether no link leads to page n of any host; only a sitemap does.
func orphan(n int) bool { return n%97 == 13 }

func portSuffix(port int) string {
	if port == 0 || port == 80 {
		return ""
	}
	return ":" + strconv.Itoa(port)
}

func (w *Web) appendHost(dst []byte, host int, port string) []byte {
	dst = append(dst, 'h')
	dst = strconv.AppendInt(dst, int64(host), 10)
	dst = append(dst, '.')
	dst = append(dst, w.cfg.Domain...)
	return append(dst, port...)
}

func appendPath(dst []byte, n int) []byte {
	if n == 0 {
		return append(dst, '/')
	}
	dst = append(dst, "/s"...)
	dst = strconv.AppendInt(dst, int64(n%sections), 10)
	dst = append(dst, '/')
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, ".html"...)
}

func (w *Web) appendURL(dst []byte, p place, port string) []byte {
	return appendPath(w.appendOrigin(dst, p.host, port), p.page)
}

func (w *Web) appendOrigin(dst []byte, host int, port string) []byte {
	dst = append(dst, w.Scheme()...)
	dst = append(dst, "://"...)
	return w.appendHost(dst, host, port)
}

// parseHost parses a Host header: the host's number and its port as ":8080" or nothing.
func (w *Web) parseHost(header string) (host int, port string, ok bool) {
	name := header
	if i := strings.LastIndexByte(header, ':'); i >= 0 {
		name, port = header[:i], header[i:]
		if _, err := strconv.ParseUint(port[1:], 10, 16); err != nil {
			return 0, "", false
		}
	}
	label, domain, _ := strings.Cut(name, ".")
	if !strings.EqualFold(domain, w.cfg.Domain) || len(label) < 2 || label[0]|0x20 != 'h' {
		return 0, "", false
	}
	host, ok = number(label[1:], w.cfg.Hosts)
	return host, port, ok
}

// parsePath is the inverse of appendPath; only the exact spelling is a page.
func (w *Web) parsePath(host int, path string) (n int, ok bool) {
	if path == "/" {
		return 0, true
	}
	rest, found := strings.CutPrefix(path, "/s")
	if !found {
		return 0, false
	}
	section, rest, _ := strings.Cut(rest, "/")
	rest, found = strings.CutSuffix(rest, ".html")
	if !found {
		return 0, false
	}
	s, ok1 := number(section, sections)
	n, ok2 := number(rest, w.pages(host))
	return n, ok1 && ok2 && n != 0 && n%sections == s
}

// number parses a canonical decimal in [0, limit).
func number(s string, limit int) (int, bool) {
	if s == "" || len(s) > 18 || (len(s) > 1 && s[0] == '0') {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, n < limit
}

// here is the host of a relative link: the host that its page is served from.
const here = -1

// trapPages is the size of each host's trap: pages with nofollow links only. It is finite, so that
// a crawler that enters it comes out again, and is detected.
const trapPages = 1000

// outlink is one link of a body, before it is written.
type outlink struct {
	to   place // host may be here
	trap bool  // to.page is a page of the trap, and the link is marked nofollow
	form uint8 // one of many forms; see appendHref
}

// outlinks enumerates the links of a body: its children in a tree, which keep most of the host
// reachable, then a mixture as on real sites: navigation that each page repeats, adjacent pages,
// other hosts, any pages.
type outlinks struct {
	w    *Web
	of   place
	i    int
	draw rng
}

func (w *Web) linksOf(body place) outlinks {
	return outlinks{w: w, of: body, draw: rng(w.draw(saltLinks, body.host, body.page))}
}

func (l *outlinks) next() (outlink, bool) {
	c, pages := &l.w.cfg, l.w.pages(l.of.host)
	if l.i >= c.Links {
		return outlink{}, false
	}
	i := l.i
	l.i++
	d := l.draw.next()
	out := outlink{to: place{here, 0}, form: uint8(d & 15)}
	if child := l.of.page*l.w.arity + 1 + i; i < l.w.arity && child < pages {
		out.to.page = unorphan(child, pages)
		return out, true
	}
	u := unit(d)
	pick := l.draw.next()
	if u -= c.NofollowShare; u < 0 {
		return outlink{to: place{here, scale(pick, trapPages)}, trap: true}, true
	}
	if u -= c.CrossHostShare; u < 0 {
		out.to.host = scale(mix(pick), c.Hosts)
		pages = l.w.pages(out.to.host)
		out.to.page = scale(pick, pages)
		if pick&1 == 0 { // most links lead to the front page
			out.to.page = min(int(pick>>1&15), pages-1)
		}
		out.to.page = unorphan(out.to.page, pages)
		return out, true
	}
	switch pick & 3 {
	case 0: // navigation
		out.to.page = min(scale(pick, 32), pages-1)
	case 1: // an adjacent page in any section
		out.to.page = wrap(l.of.page+scale(pick, 65)-32, pages)
	case 2: // an adjacent page in the same section
		out.to.page = wrap(l.of.page+(scale(pick, 33)-16)*sections, pages)
	default:
		out.to.page = scale(pick, pages)
	}
	out.to.page = unorphan(out.to.page, pages)
	return out, true
}

func wrap(n, size int) int { return ((n % size) + size) % size }

func unorphan(n, size int) int {
	if orphan(n) {
		return (n + 1) % size
	}
	return n
}

// appendHref writes a link of the body `of`. All forms of a link are the same canonical URL.
func (w *Web) appendHref(dst []byte, of place, l outlink, port string) []byte {
	if l.trap {
		return appendTrapPath(dst, l.to.page)
	}
	if l.to.host != here {
		switch l.form & 7 {
		case 0:
			dst = append(dst, "//"...)
			dst = w.appendHost(dst, l.to.host, port)
		case 1:
			at := len(dst)
			dst = w.appendOrigin(dst, l.to.host, port)
			for i := range w.Scheme() + "://h" {
				if c := &dst[at+i]; *c >= 'a' {
					*c -= 'a' - 'A'
				}
			}
		default:
			dst = w.appendOrigin(dst, l.to.host, port)
		}
		return appendPath(dst, l.to.page)
	}
	sameSection := of.page != 0 && l.to.page != 0 && of.page%sections == l.to.page%sections
	switch {
	case sameSection && l.form < 12:
		dst = strconv.AppendInt(dst, int64(l.to.page), 10)
		dst = append(dst, ".html"...)
	case l.form < 6:
		dst = append(dst, ".."...)
		dst = appendPath(dst, l.to.page)
	case l.form == 6:
		dst = append(dst, "/."...)
		dst = appendPath(dst, l.to.page)
	default:
		dst = appendPath(dst, l.to.page)
	}
	if l.form&3 == 3 {
		dst = append(dst, "#t"...)
		dst = strconv.AppendInt(dst, int64(l.form), 10)
	}
	return dst
}

func appendTrapPath(dst []byte, n int) []byte {
	dst = append(dst, "/trap/"...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	return append(dst, ".html"...)
}

// blockBytes is the size of the text from which all pages are cut: large enough that pages differ,
// small enough for a processor's cache.
const blockBytes = 256 << 10

// block is running text with the places where words begin.
type block struct {
	text   []byte
	starts []uint32
}

func newBlock(r rng) block {
	const letters = "etaoinshrdlucmfwypvbgkjqxz"
	vocabulary := make([][]byte, 4096)
	for i := range vocabulary {
		word := make([]byte, 2+r.below(8))
		for j := range word {
			// The smaller of two draws prefers the first letters, which are the frequent ones: the text
			// compresses about as prose does.
			word[j] = letters[min(r.below(26), r.below(26))]
		}
		vocabulary[i] = word
	}
	b := block{text: make([]byte, 0, blockBytes)}
	for len(b.text) < blockBytes-16 {
		b.starts = append(b.starts, uint32(len(b.text)))
		b.text = append(b.text, vocabulary[min(r.below(4096), r.below(4096))]...)
		b.text = append(b.text, ' ')
	}
	return b
}

// appendText appends about n bytes of running text from the word selected by d.
func (b *block) appendText(dst []byte, d uint64, n int) []byte {
	at := int(b.starts[scale(d, len(b.starts))])
	for n > 0 {
		part := b.text[at:min(at+n, len(b.text))]
		dst = append(dst, part...)
		n -= len(part)
		at = 0
	}
	return dst
}

// linkBytes is the approximate size of a link with its element and its words.
const linkBytes = 60

// appendBody appends the page made for `of`. It allocates nothing beyond dst.
func (w *Web) appendBody(dst []byte, of place, port string) []byte {
	text := rng(w.draw(saltText, of.host, of.page))
	size := w.cfg.PageBytes/2 + text.below(w.cfg.PageBytes+1)
	begin := len(dst)
	dst = append(dst, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>Page "...)
	dst = strconv.AppendInt(dst, int64(of.page), 10)
	dst = append(dst, " of host "...)
	dst = strconv.AppendInt(dst, int64(of.host), 10)
	dst = append(dst, "</title>\n"...)
	if m := w.marksOf(of); !m.header && (m.nofollow || m.noindex) {
		dst = append(dst, "<meta name=\"robots\" content=\""...)
		dst = append(dst, m.content()...)
		dst = append(dst, "\">\n"...)
	}
	dst = append(dst, "</head>\n<body>\n<p>"...)

	gap := max(0, size-(len(dst)-begin)-w.cfg.Links*linkBytes) / (w.cfg.Links + 1)
	links := w.linksOf(of)
	for l, more := links.next(); more; l, more = links.next() {
		d := text.next()
		dst = w.words.appendText(dst, d, gap)
		dst = append(dst, "<a href=\""...)
		dst = w.appendHref(dst, of, l, port)
		if l.trap {
			dst = append(dst, "\" rel=\"nofollow"...)
		}
		dst = append(dst, "\">"...)
		dst = w.words.appendText(dst, mix(d), 12)
		dst = append(dst, "</a>\n"...)
		if links.i%8 == 0 {
			dst = append(dst, "</p>\n<p>"...)
		}
	}
	dst = w.words.appendText(dst, text.next(), gap)
	return append(dst, "</p>\n</body>\n</html>\n"...)
}

// content is the value of a robots meta element or an X-Robots-Tag header.
func (m marks) content() string {
	switch {
	case m.nofollow && m.noindex:
		return "noindex, nofollow"
	case m.nofollow:
		return "nofollow"
	case m.noindex:
		return "noindex"
	default:
		return ""
	}
}

// appendTrap appends page n of a host's trap: a few words and links further in.
func (w *Web) appendTrap(dst []byte, host, n int) []byte {
	dst = append(dst, "<!DOCTYPE html>\n<title>Trap "...)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, " of host "...)
	dst = strconv.AppendInt(dst, int64(host), 10)
	dst = append(dst, "</title>\n<p>Who came here followed a link marked nofollow. <a href=\""...)
	dst = appendTrapPath(dst, (n+1)%trapPages)
	return append(dst, "\">On</a>.</p>\n"...)
}
