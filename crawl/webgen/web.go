package webgen

import (
	"math"
	"strconv"
	"strings"
)

// Web is a synthetic web with the audit of the requests to it.
type Web struct {
	cfg   Config
	words block
	arity int // children of a page in the tree that keeps most pages reachable
	audit *audit
}

// New returns the web of cfg. It starts nothing.
func New(cfg Config) *Web {
	cfg = cfg.withDefaults()
	w := &Web{cfg: cfg, arity: min(8, cfg.Links)}
	w.words = newBlock(rng(w.draw(saltWords, 0, 0)))
	w.audit = newAudit(cfg.Hosts)
	return w
}

// Config returns the configuration of the web, with defaults filled in.
func (w *Web) Config() Config { return w.cfg }

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
