package extract

import (
	"bytes"
	"hash/maphash"
	"net/http"

	"golang.org/x/text/encoding"

	"github.com/apoidea/apoidea/crawl/link"
)

// MaxLinks bounds the distinct links of one document: the limit of the sitemap protocol for one
// sitemap. The largest indexes of real documentation have about half of it.
const MaxLinks = 50_000

// MaxLinkBytes bounds the total length of the URLs of one document. Otherwise short hrefs under a
// long base would yield many times the document's size.
const MaxLinkBytes = 8 << 20

// keptBytes bounds the buffer for URLs that an Extractor keeps between documents.
const keptBytes = 1 << 20

// Options select what is extracted from a document.
type Options struct {
	// Requisites extracts images, scripts, style sheets and the like as well.
	Requisites bool
	// Agent is the crawler's product token. Robots directives for it are obeyed beside those for all.
	Agent string
	// Sitemaps extracts the entries of a page that is a sitemap or feed by its type and its first
	// element, URLList those of a plain text that consists of absolute URLs.
	Sitemaps, URLList bool
	// Cut states that the body is truncated.
	Cut bool
}

// Page is the result for one document.
type Page struct {
	// Links in the order of the document, each URL once. The URLs of a page share one allocation:
	// clone those that are retained.
	Links []link.Link
	// NoIndex: the page requests not to be indexed.
	NoIndex bool
	// NoFollow: the page requests not to follow its links; all of them are marked too.
	NoFollow bool
	// Text is the digest of the text of an HTML document outside links, with its title, description
	// and addresses of images, white space as one; Masked is the same with digits masked. Zero for
	// other documents.
	Text, Masked uint64
	// Words is the SimHash of the words of that text; zero for other media types and short texts.
	Words uint64
	// Feed: the document is an RSS or Atom feed.
	Feed bool
	// LeftOut is the number of links beyond [MaxLinks] or [MaxLinkBytes], or in the headers beyond
	// [MaxHeaderLinks] or [MaxHeaderLinkBytes], repeated ones counted each time. The rest of a sitemap
	// counts as 1: all after [MaxSitemap], and for XML all after the limits of links.
	LeftOut int
}

// Extractor extracts links. It reuses buffers between documents and is not safe for concurrent use.
// The zero value is ready to use.
type Extractor struct {
	scan scanner
	walk walk

	hrefs set    // as written
	found []href // beside hrefs
	urls  set    // resolved
	links []entry
	arena []byte // the text of urls

	headerBytes int // total length of hrefs in Link headers

	enc     *encoding.Decoder // nil: UTF-8
	scratch []byte            // a decoded href
}

// href is one attribute value that contains a URL.
type href struct {
	kind     link.Kind
	nofollow bool
	literal  bool // needs no (further) decoding
	modified uint32
}

// entry is one resolved URL, its text at arena[begin:end].
type entry struct {
	begin, end int
	kind       link.Kind
	nofollow   bool
	modified   uint32
}

// Document extracts an answer: its headers, and its body if that is HTML or a sitemap. The error
// means that pageURL is not crawlable or that a sitemap has a syntax error; what was extracted is
// in page all the same.
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

// begin resets page and the extractor.
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
	return base, nil
}

// add records one href as written, which must not be modified until it is resolved; it returns
// false if there are too many.
func (x *Extractor) add(page *Page, value []byte, h href) bool {
	if len(x.found) >= MaxLinks && !x.hrefs.has(withoutFragment(value)) {
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

// withoutFragment truncates an href after its number sign, so that fragments of one page are
// deduplicated as written. After a character reference the sign may be part of it.
func withoutFragment(value []byte) []byte {
	i := bytes.IndexByte(value, '#')
	if i < 0 || bytes.IndexByte(value[:i], '&') >= 0 {
		return value
	}
	return value[:i+1]
}

// merge combines two links to one URL: a document takes precedence over a requisite, and a followed
// link over a nofollow one.
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

// resolve resolves the hrefs recorded by add, and clears them.
func (x *Extractor) resolve(page *Page, base *link.Base) {
	for i, h := range x.found {
		value := x.hrefs.keys[i]
		if !h.literal {
			value = x.decode(value)
		}
		begin := len(x.arena)
		var err error
		if x.arena, err = base.AppendResolve(x.arena, value); err != nil {
			continue // not crawlable
		}
		if len(x.links) >= MaxLinks || len(x.arena) > MaxLinkBytes {
			page.LeftOut += len(x.found) - i
			x.arena = x.arena[:begin]
			break
		}
		if j, fresh := x.urls.add(x.arena[begin:]); fresh {
			x.links = append(x.links, entry{begin, len(x.arena), h.kind, h.nofollow, h.modified})
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
		page.Links = append(page.Links, link.Link{URL: text[e.begin:e.end], Kind: e.kind, Nofollow: e.nofollow || page.NoFollow, Modified: e.modified})
	}
}

// set numbers distinct byte strings in order of arrival. The keys are owned by the caller. The hash
// is seeded per process, so that no page can cause collisions.
type set struct {
	keys   [][]byte
	hashes []uint64
	slots  []uint32 // open addressing; number of a key plus one, or 0
}

var seed = maphash.MakeSeed()

// minSlots is sufficient for the links of nearly all pages and cheap to clear.
const minSlots = 1024

// add returns the key's number, and whether it is new.
func (s *set) add(key []byte) (number int, fresh bool) {
	if 2*len(s.keys) >= len(s.slots) {
		s.grow()
	}
	h := maphash.Bytes(seed, key)
	mask := uint64(len(s.slots) - 1)
	i := h & mask
	for ; s.slots[i] != 0; i = (i + 1) & mask {
		if n := s.slots[i] - 1; s.hashes[n] == h && bytes.Equal(s.keys[n], key) {
			return int(n), false
		}
	}
	s.keys, s.hashes = append(s.keys, key), append(s.hashes, h)
	s.slots[i] = uint32(len(s.keys))
	return len(s.keys) - 1, true
}

// has reports whether a key is in the set.
func (s *set) has(key []byte) bool {
	if len(s.slots) == 0 {
		return false
	}
	h := maphash.Bytes(seed, key)
	mask := uint64(len(s.slots) - 1)
	for i := h & mask; s.slots[i] != 0; i = (i + 1) & mask {
		if n := s.slots[i] - 1; s.hashes[n] == h && bytes.Equal(s.keys[n], key) {
			return true
		}
	}
	return false
}

func (s *set) grow() {
	s.slots = make([]uint32, max(minSlots, 2*len(s.slots)))
	mask := uint64(len(s.slots) - 1)
	for n, h := range s.hashes {
		i := h & mask
		for ; s.slots[i] != 0; i = (i + 1) & mask {
		}
		s.slots[i] = uint32(n + 1)
	}
}

// reset empties the set, and frees the memory of an unusually large page.
func (s *set) reset() {
	if len(s.slots) > 16*minSlots {
		*s = set{}
		return
	}
	clear(s.keys) // do not retain the document
	clear(s.slots)
	s.keys, s.hashes = s.keys[:0], s.hashes[:0]
}
