package extract

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/crawl/link"
)

// maxToken bounds the bytes of one token of a sitemap, such as a tag with its attributes.
const maxToken = 2 << 20

// entryKinds are the elements of entries, with the element within them that has the URL.
var entryKinds = map[string]struct {
	child string
	kind  link.Kind
}{
	"url":     {"loc", link.KindPage}, // sitemaps.org
	"sitemap": {"loc", link.KindSitemap},
	"item":    {"link", link.KindPage}, // RSS
	"entry":   {"link", link.KindPage}, // Atom
}

// newXMLTokenizer reads an XML document as browsers read HTML, since that never fails: feeds are
// assembled from texts of others, and one invalid byte, or a comment with two hyphens in it, would
// hide the rest. A text in an unknown encoding is read as UTF-8.
func newXMLTokenizer(text []byte) *html.Tokenizer {
	var r io.Reader = bytes.NewReader(text)
	if c := declared(text); c.enc != nil && c.name != "utf-8" && c.name != "replacement" {
		r = c.enc.NewDecoder().Reader(r)
	}
	z := html.NewTokenizer(r)
	z.AllowCDATA(true)
	z.SetMaxBuf(maxToken)
	return z
}

// entries is the position in a sitemap. It keeps no stack of elements, so that depth costs no
// memory. The prefix of a name counts as its namespace.
type entries struct {
	depth  int
	entry  string // the local name of the current entry, empty outside of one
	prefix string // its prefix
	level  int    // its depth
	taking bool   // the text of the current element is a URL
	kind   link.Kind
	text   []byte
	isGUID bool // the current element is an RSS item's GUID, which may be a URL
}

// sitemapXML adds the entries of an XML sitemap.
func (x *Extractor) sitemapXML(page *Page, text []byte) error {
	var at entries
	z := newXMLTokenizer(bytes.TrimSpace(text))
	for room := true; room; {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("read sitemap: %w: %w", ErrSitemap, err)
			}
			if len(z.Raw()) > 0 {
				return fmt.Errorf("read sitemap: %w: %w in a tag", ErrSitemap, io.ErrUnexpectedEOF)
			}
			return nil
		case html.StartTagToken, html.SelfClosingTagToken:
			prefix, local := at.open(z)
			if url := at.link(z, local); url != "" {
				room = x.add(page, []byte(url), href{kind: link.KindPage, literal: true})
			}
			if kind == html.SelfClosingTagToken {
				at.close(prefix, local)
			}
		case html.TextToken:
			if at.taking {
				at.add(z.Raw())
			}
		case html.EndTagToken:
			if url := at.url(); url != nil {
				room = x.add(page, bytes.Clone(url), href{kind: at.kind, literal: true})
			}
			at.close(tagName(z))
		}
	}
	return nil
}

// tagName returns the name of a tag in lower case.
func tagName(z *html.Tokenizer) (prefix, local string) {
	name, _ := z.TagName()
	prefix, local, found := strings.Cut(string(name), ":")
	if !found {
		return "", prefix
	}
	return prefix, local
}

// open enters an element.
func (at *entries) open(z *html.Tokenizer) (prefix, local string) {
	z.NextIsNotRawText() // as it is in HTML after <title/>
	prefix, local = tagName(z)
	at.depth++
	at.taking, at.isGUID, at.text = false, false, at.text[:0]
	if of, known := entryKinds[local]; known && (at.entry == "" || !isExtension(prefix)) {
		at.entry, at.prefix, at.level, at.kind = local, prefix, at.depth, of.kind
	} else if at.entry != "" && at.depth == at.level+1 && prefix == at.prefix {
		at.isGUID = at.entry == "item" && local == "guid"
		at.taking = at.isGUID || local == entryKinds[at.entry].child
	}
	return prefix, local
}

// link returns the URL in the attributes of the element that was entered: that of a link of any
// namespace to the entry itself or to a version of it.
func (at *entries) link(z *html.Tokenizer, local string) (url string) {
	if at.entry == "" || at.depth != at.level+1 || local != "link" && !at.isGUID {
		return ""
	}
	for more := true; more; {
		var key, value []byte
		key, value, more = z.TagAttr()
		switch string(key) {
		case "href":
			if local == "link" {
				url = string(value)
			}
		case "rel":
			if !bytes.EqualFold(bytes.TrimSpace(value), []byte("alternate")) {
				return ""
			}
		case "ispermalink":
			if at.isGUID && string(bytes.TrimSpace(value)) == "false" {
				at.taking, at.isGUID = false, false
			}
		}
	}
	return url
}

// add adds a token to the text. Legacy references without a semicolon are parts of URLs.
func (at *entries) add(raw []byte) {
	if data, ok := bytes.CutPrefix(raw, []byte("<![CDATA[")); ok {
		at.text = append(at.text, bytes.TrimSuffix(data, []byte("]]>"))...)
	} else {
		at.text = appendUnescaped(at.text, raw)
	}
}

// url returns the URL in the text of the element that ends; nil if there is none, or bytes of it
// are invalid.
func (at *entries) url() []byte {
	url := bytes.Trim(at.text, " \t\r\n")
	invalid := func(r rune) bool {
		return r == utf8.RuneError || r < ' ' && r != '\t' && r != '\n' && r != '\r'
	}
	if !at.taking || len(url) == 0 || at.isGUID && !isAbsolute(url) || bytes.ContainsFunc(url, invalid) {
		return nil
	}
	return url
}

// close leaves an element. The end of an entry corrects the depth if an element within was not
// closed.
func (at *entries) close(prefix, local string) {
	at.taking, at.text = false, at.text[:0]
	if local == at.entry && prefix == at.prefix {
		at.entry, at.depth = "", at.level
	}
	at.depth = max(at.depth-1, 0)
}

// isExtension reports whether a prefix is usually that of an extension of sitemaps, whose elements
// describe images, videos and the like, or of HTML or media feeds.
func isExtension(prefix string) bool {
	switch prefix {
	case "image", "video", "news", "mobile", "xhtml", "media":
		return true
	}
	return false
}
