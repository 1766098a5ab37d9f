package extract

import (
	"bytes"
	"net/http"

	"golang.org/x/text/encoding"

	"github.com/apoidea/apoidea/crawl/link"
)

// MaxLinks is how many different links one document gives, as many as the sitemap protocol allows
// one sitemap. The largest indexes of real documentation hold about half of it.
const MaxLinks = 50_000

// MaxLinkBytes is how long the URLs of one document may be together. Without it, short hrefs under
// a long base would make many times the document's size.
const MaxLinkBytes = 8 << 20

// keptBytes is the most that an Extractor keeps of the buffer for URLs from one document to the
// next.
const keptBytes = 1 << 20

// Options says what is wanted of a document.
type Options struct {
	// Requisites asks for images, scripts, style sheets and the like as well.
	Requisites bool
	// Agent is the crawler's product token. Robots directives under this name are obeyed beside
	// those for all.
	Agent string
	// Sitemaps asks for the entries of a page that is a sitemap or feed by its type and its first
	// element, and URLList for those of a plain text of nothing but absolute URLs as well.
	Sitemaps, URLList bool
	// Cut says that the body is only the beginning of one.
	Cut bool
}

// Page is what was found in one document.
type Page struct {
	// Links in the order of the document, each URL once. The URLs of a page share one piece of
	// memory: clone what is kept for long.
	Links []link.Link
	// NoIndex: the page asks not to be indexed.
	NoIndex bool
	// NoFollow: the page asks not to follow its links; all of them are marked then as well.
	NoFollow bool
	// Charset is the document's encoding as the WHATWG names it, in lower case; empty for what is
	// not HTML.
	Charset string
	// Base is the URL that the links were relative to; empty if none could be (a base of another
	// scheme).
	Base string
	// Fingerprint of what an HTML document says; zero for others.
	Fingerprint Fingerprint
	// Terms of an HTML document are hashes of its different words beside links and of the addresses
	// of its images, without the words of its own URL, at most 1,024; those of words with a digit
	// have [Number] set. They are of use until the next document is read.
	Terms []uint32
	// Truncated: there were more links than [MaxLinks] or [MaxLinkBytes], in the headers more than
	// [MaxHeaderLinks] or [MaxHeaderLinkBytes], or more of a sitemap than [MaxSitemap].
	Truncated bool
	// LeftOut is how many links of the document are not in Links for that; one that stands there
	// several times counts each time. What is not read of a sitemap counts as 1: all behind
	// MaxSitemap, and of one in XML all behind the bounds on links.
	LeftOut int
}

// Extractor finds links. It keeps buffers between documents and is not safe for concurrent use. The
// zero value is ready.
type Extractor struct {
	scan scanner
	walk walk

	hrefs set    // as written
	found []href // beside hrefs
	urls  set    // resolved
	links []entry
	arena []byte // the text of urls

	headerBytes int // of the hrefs in Link headers, as written

	enc     *encoding.Decoder // nil: UTF-8
	scratch []byte            // an href while it is decoded
}

// href is one attribute value that names a URL.
type href struct {
	kind     link.Kind
	nofollow bool
	literal  bool // not to be decoded (any more)
}

// entry is one resolved URL, its text at arena[begin:end].
type entry struct {
	begin, end int
	kind       link.Kind
	nofollow   bool
}

// Document extracts an answer: its headers, and its body if that is HTML or a sitemap. The error
// says that pageURL is not crawlable or that a sitemap has a fault; what was read is in page all
// the same.
func (x *Extractor) Document(page *Page, pageURL string, header http.Header, body []byte, opt Options) error {
	base, err := x.begin(page, pageURL)
	if err != nil {
		return err
	}
	x.header(page, base, header, opt)
	switch contentType := ContentType(header); {
	case opt.Sitemaps && isSitemap(contentType, body, opt.URLList):
		err = x.sitemap(page, base, body, opt.Cut)
	case IsHTML(contentType, body):
		x.html(page, base, contentType, body, opt)
	}
	x.finish(page)
	return err
}

// HTML extracts a body that is known to be HTML, contentType being its header's value or empty.
func (x *Extractor) HTML(page *Page, pageURL, contentType string, body []byte, opt Options) error {
	base, err := x.begin(page, pageURL)
	if err != nil {
		return err
	}
	x.html(page, base, contentType, body, opt)
	x.finish(page)
	return nil
}

// begin empties page and what is left of the last document.
func (x *Extractor) begin(page *Page, pageURL string) (*link.Base, error) {
	*page = Page{Links: page.Links[:0]}
	x.urls.reset()
	if cap(x.arena) > keptBytes {
		x.links, x.arena = nil, nil
	}
	x.links, x.arena = x.links[:0], x.arena[:0]
	x.enc = nil
	base, err := link.NewBase(pageURL)
	if err != nil {
		return nil, err
	}
	page.Base = base.String()
	return base, nil
}

// add notes one href as written, which must stay as it is until it is resolved; false if there are
// too many.
func (x *Extractor) add(page *Page, value []byte, h href) bool {
	if len(x.found) >= MaxLinks && !x.hrefs.has(withoutFragment(value)) {
		page.Truncated = true
		page.LeftOut++
		return false
	}
	if i, fresh := x.hrefs.add(withoutFragment(value)); fresh {
		x.found = append(x.found, h)
	} else {
		old := &x.found[i]
		old.literal = old.literal && h.literal
		old.kind, old.nofollow = merge(old.kind, old.nofollow, h.kind, h.nofollow)
	}
	return true
}

// withoutFragment cuts an href behind its number sign, so that the many places of one page are one
// already as written. Where a character reference stands before, the sign may be part of it.
func withoutFragment(value []byte) []byte {
	i := bytes.IndexByte(value, '#')
	if i < 0 || bytes.IndexByte(value[:i], '&') >= 0 {
		return value
	}
	return value[:i+1]
}

// merge returns what a URL is that was found twice: a document rather than a requisite, and to be
// followed if either place says so.
func merge(kind link.Kind, nofollow bool, other link.Kind, otherNofollow bool) (link.Kind, bool) {
	switch {
	case kind == other:
		return kind, nofollow && otherNofollow
	case kind == link.KindRequisite || other == link.KindPage:
		return other, otherNofollow
	default:
		return kind, nofollow
	}
}

// resolve resolves what add noted, and forgets it.
func (x *Extractor) resolve(page *Page, base *link.Base) {
	for i, h := range x.found {
		value := x.hrefs.keys[i]
		if !h.literal {
			value = x.decode(value)
		}
		begin := len(x.arena)
		var err error
		if x.arena, err = base.AppendResolve(x.arena, value); err != nil {
			continue // a link that cannot be crawled is none
		}
		if len(x.links) >= MaxLinks || len(x.arena) > MaxLinkBytes {
			page.Truncated = true
			page.LeftOut += len(x.found) - i
			x.arena = x.arena[:begin]
			break
		}
		if j, fresh := x.urls.add(x.arena[begin:]); fresh {
			x.links = append(x.links, entry{begin, len(x.arena), h.kind, h.nofollow})
		} else {
			x.arena = x.arena[:begin]
			old := &x.links[j]
			old.kind, old.nofollow = merge(old.kind, old.nofollow, h.kind, h.nofollow)
		}
	}
	x.hrefs.reset()
	x.found = x.found[:0]
}

// finish turns the resolved URLs into page's links.
func (x *Extractor) finish(page *Page) {
	text := string(x.arena)
	for _, e := range x.links {
		page.Links = append(page.Links, link.Link{URL: text[e.begin:e.end], Kind: e.kind, Nofollow: e.nofollow || page.NoFollow})
	}
}
