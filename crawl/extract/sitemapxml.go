package extract

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// maxSpaces bounds the namespace declarations in scope at one place of a sitemap.
const maxSpaces = 256

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

// entries is the position in a sitemap. It keeps no stack of elements, so that depth costs no
// memory.
type entries struct {
	depth  int
	spaces []space

	entry  string   // the local name of the current entry, empty outside of one
	within xml.Name // its full name
	level  int      // its depth
	taking bool     // the text of the current element is a URL
	kind   link.Kind
	text   []byte
	isGUID bool // the current element is an RSS item's GUID, which may be a URL
}

// space is a namespace declaration: the namespace of a prefix from a depth on.
type space struct {
	depth       int
	prefix, uri string
}

// sitemapXML adds the entries of an XML sitemap. It returns the first syntax error, after
// processing the rest.
func (x *Extractor) sitemapXML(page *Page, text []byte) error {
	var at entries
	r := newXMLReader(text)
	for room := true; room; {
		token, err := r.next()
		if err != nil {
			break
		}
		switch t := token.(type) {
		case xml.StartElement:
			if url := at.open(t); url != "" {
				room = x.add(page, []byte(url), href{kind: link.KindPage, literal: true})
			}
		case xml.CharData:
			if at.taking {
				at.text = append(at.text, t...)
			}
		case xml.EndElement:
			if url := bytes.TrimSpace(at.text); at.taking && len(url) > 0 && (!at.isGUID || isAbsolute(url)) {
				room = x.add(page, bytes.Clone(url), href{kind: at.kind, literal: true})
			}
			at.close(t.Name)
		case fault:
			at.taking = false
		}
	}
	if r.first != nil {
		return fmt.Errorf("read sitemap: %w: %w", ErrSitemap, r.first)
	}
	return nil
}

// open enters an element, and returns the URL in its attributes.
func (at *entries) open(t xml.StartElement) (url string) {
	at.depth++
	at.declare(t.Attr)
	at.taking, at.text = false, at.text[:0]
	name := xml.Name{Space: at.uri(t.Name.Space), Local: t.Name.Local}
	if of, known := entryKinds[name.Local]; known && (at.entry == "" || !isExtension(name.Space)) {
		at.entry, at.within, at.level, at.kind = name.Local, name, at.depth, of.kind
		return ""
	}
	if at.entry == "" || at.depth != at.level+1 {
		return ""
	}
	same := name.Space == at.within.Space
	at.isGUID = at.entry == "item" && name.Local == "guid" && !slices.ContainsFunc(t.Attr, func(a xml.Attr) bool {
		return a.Name.Local == "isPermaLink" && strings.TrimSpace(a.Value) == "false"
	})
	at.taking = same && (at.isGUID || name.Local == entryKinds[at.entry].child)
	if name.Local == "link" && (same || isLinkSpace(name.Space)) && alternate(t.Attr) {
		return hrefOf(t.Attr)
	}
	return ""
}

// close leaves an element. The end of an entry corrects the depth if an element within was not
// closed.
func (at *entries) close(name xml.Name) {
	at.taking, at.text = false, at.text[:0]
	if name.Local == at.entry && at.uri(name.Space) == at.within.Space {
		at.entry, at.depth = "", at.level
	}
	for n := len(at.spaces); n > 0 && at.spaces[n-1].depth >= at.depth; n-- {
		at.spaces = at.spaces[:n-1]
	}
	at.depth = max(at.depth-1, 0)
}

// declare adds the namespaces that an element declares.
func (at *entries) declare(attrs []xml.Attr) {
	for _, a := range attrs {
		if len(at.spaces) >= maxSpaces {
			return
		}
		switch {
		case a.Name.Space == "xmlns":
			at.spaces = append(at.spaces, space{at.depth, a.Name.Local, strings.TrimSpace(a.Value)})
		case a.Name.Space == "" && a.Name.Local == "xmlns":
			at.spaces = append(at.spaces, space{at.depth, "", strings.TrimSpace(a.Value)})
		}
	}
}

// uri returns the namespace of a prefix. An undeclared prefix is its own namespace, which is what
// documents with a missing declaration intend.
func (at *entries) uri(prefix string) string {
	for _, s := range slices.Backward(at.spaces) {
		if s.prefix == prefix {
			return s.uri
		}
	}
	return prefix
}

// isExtension reports whether a namespace is one of the extensions of sitemaps, whose elements
// describe images, videos and the like, or of HTML or media feeds.
func isExtension(uri string) bool {
	switch uri {
	case "image", "video", "news", "mobile", "xhtml", "media":
		return true
	}
	return strings.Contains(uri, "/schemas/sitemap-") || strings.Contains(uri, "/mrss") || strings.HasSuffix(uri, "/1999/xhtml")
}

// isLinkSpace reports whether link elements of a namespace lead to versions of the entry around
// them.
func isLinkSpace(uri string) bool {
	return uri == "xhtml" || uri == "atom" || strings.HasSuffix(uri, "/1999/xhtml") || strings.HasSuffix(uri, "/2005/Atom")
}

// alternate reports whether a link element leads to the entry itself or to a version of it.
func alternate(attrs []xml.Attr) bool {
	for _, a := range attrs {
		if a.Name.Local == "rel" && !strings.EqualFold(strings.TrimSpace(a.Value), "alternate") {
			return false
		}
	}
	return true
}

// hrefOf returns the attribute href, empty without one.
func hrefOf(attrs []xml.Attr) string {
	for _, a := range attrs {
		if a.Name.Space == "" && a.Name.Local == "href" {
			return a.Value
		}
	}
	return ""
}
