package link

import (
	"bytes"
	"strings"
	"sync"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/text/encoding"
)

// Base resolves the hrefs of one document. Safe for concurrent use once built.
type Base struct {
	// Encoding is that of the document, used for the queries of its links (URL standard, "query
	// state"). Nil: UTF-8.
	Encoding encoding.Encoding

	url    string // canonical; empty if it is not a valid base
	origin int    // length of scheme, host and port
	dir    int    // length up to the slash before the path's last segment
	path   int    // length up to the query

	once   sync.Once   // guards parsed
	parsed *whatwg.Url // parsed form of url, created on demand
}

// NewBase returns the base of a page: its own URL, unless Rebase changes it.
func NewBase(pageURL string) (*Base, error) {
	url, err := Canonical(pageURL)
	if err != nil {
		return nil, err
	}
	return newBase(url), nil
}

func newBase(url string) *Base {
	b := &Base{url: url, origin: len(Origin(url)), path: len(url)}
	if i := strings.IndexByte(url, '?'); i >= 0 {
		b.path = i
	}
	b.dir = strings.LastIndexByte(url[:b.path], '/') + 1
	return b
}

// String returns the base's canonical URL; empty if it is not crawlable.
func (b *Base) String() string { return b.url }

// Rebase returns the base after a <base href> (HTML standard, "set the frozen base URL"): b itself
// if href does not parse or is a data: or javascript: URL. Against a base of another scheme no
// relative href can be crawled, absolute ones can.
func (b *Base) Rebase(href []byte) *Base {
	url, err := b.AppendResolve(nil, href)
	if err == nil {
		other := newBase(string(url))
		other.Encoding = b.Encoding
		return other
	}
	u, perr := parse(string(href), b.parsedURL())
	if perr != nil || u.Scheme() == "data" || u.Scheme() == "javascript" {
		return b
	}
	return &Base{Encoding: b.Encoding}
}

// parsedURL returns the base for the parser; nil if nothing is relative to b.
func (b *Base) parsedURL() *whatwg.Url {
	b.once.Do(func() {
		if b.url == "" {
			return
		}
		if u, err := parser.Parse(b.url); err == nil {
			b.parsed = u
		}
	})
	return b.parsed
}

// AppendResolve appends the canonical form of href, as found in the document, to dst. Href is UTF-8
// whatever the document's encoding. On an error it returns dst unchanged: [ErrTooLong], or one that
// wraps [ErrNotCrawlable].
func (b *Base) AppendResolve(dst, href []byte) ([]byte, error) {
	href, err := trim(href)
	if err != nil {
		return dst, err
	}
	out, ok, err := b.appendFast(dst, href)
	if err != nil {
		return dst, err
	}
	if ok {
		return bounded(dst, out)
	}
	return b.appendSlow(dst, href)
}

// appendFast resolves the common hrefs; ok is false where the parser is needed.
func (b *Base) appendFast(dst, href []byte) (out []byte, ok bool, err error) {
	switch schemeOf(href) {
	case noScheme:
	case http:
		if rest, found := bytes.CutPrefix(href, []byte("http://")); found {
			out, ok = appendAuthority(append(dst, "http://"...), rest)
		} else if rest, found := bytes.CutPrefix(href, []byte("https://")); found {
			out, ok = appendAuthority(append(dst, "https://"...), rest)
		}
		return out, ok, nil
	case otherScheme:
		return dst, false, errScheme
	}
	if b.url == "" {
		return dst, false, nil
	}
	root := len(dst) + b.origin
	switch {
	case len(href) == 0 || href[0] == '#':
		return append(dst, b.url...), true, nil
	case href[0] == '?':
		out, ok = appendQuery(append(dst, b.url[:b.path]...), href)
	case len(href) > 1 && href[0] == '/' && href[1] == '/':
		scheme := b.url[:strings.IndexByte(b.url, '/')+2]
		out, ok = appendAuthority(append(dst, scheme...), href[2:])
	case href[0] == '/':
		out, ok = appendTail(append(append(dst, b.url[:b.origin]...), '/'), root, href[1:])
	default:
		out, ok = appendTail(append(dst, b.url[:b.dir]...), root, href)
	}
	return out, ok, nil
}

// appendSlow resolves with the parser.
func (b *Base) appendSlow(dst, href []byte) ([]byte, error) {
	if b.Encoding != nil {
		href = encodeQuery(href, b.Encoding)
	}
	return appendParsed(dst, href, b.parsedURL())
}

// Results of schemeOf.
const (
	noScheme    = iota // none, or the parser is needed
	http               // http: or https:
	otherScheme        // another, and so not crawlable
)

// schemeOf detects the scheme of href. White space inside, which the parser drops, yields noScheme,
// where the parser is used anyway.
func schemeOf(href []byte) int {
	for i, c := range href {
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			if s := href[:i]; bytes.EqualFold(s, []byte("http")) || bytes.EqualFold(s, []byte("https")) {
				return http
			}
			return otherScheme
		default:
			return noScheme
		}
	}
	return noScheme
}
