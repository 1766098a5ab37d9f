package extract

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html"

	"github.com/apoidea/apoidea/crawl/link"
)

// MaxSitemap bounds the bytes of a sitemap, both compressed and decompressed: the limit of the
// sitemap protocol. The rest is omitted.
const MaxSitemap = 50 << 20

// ErrSitemap reports a body that is not a sitemap.
var ErrSitemap = errors.New("not a sitemap")

// Sitemap extracts a sitemap: an XML url set or index (its entries are sitemaps), an RSS or Atom
// feed, or a text of one URL a line; compressed with gzip or not. Entries before an error are in
// page all the same. Cut states that body is truncated, so that a URL at its end may be incomplete.
func (x *Extractor) Sitemap(page *Page, sitemapURL string, body []byte, cut bool) error {
	base, err := x.begin(page, sitemapURL)
	if err != nil {
		return err
	}
	err = x.sitemap(page, base, body, cut)
	x.finish(page)
	return err
}

// sitemap adds the entries of a sitemap and resolves them.
func (x *Extractor) sitemap(page *Page, base *link.Base, body []byte, cut bool) error {
	body, over, err := unpack(body)
	if err != nil {
		return err
	}
	if len(body) > MaxSitemap {
		page.LeftOut++
		body, over = body[:MaxSitemap], true
	}
	text := sitemapText(body)
	if bytes.HasPrefix(text, []byte("<")) {
		err = x.sitemapXML(page, text)
	} else {
		x.urlList(page, text, cut || over)
	}
	x.resolve(page, base)
	return err
}

// sitemapText returns a body in UTF-8 without a prefix before its first element.
func sitemapText(body []byte) []byte {
	c := byteOrder(body)
	if c.enc == nil {
		c = byZeros(body)
	}
	if c.enc != nil {
		body = transcode(c.enc, body)
	}
	return bytes.TrimLeft(body, " \t\r\n\v\f\x00\ufeff")
}

// MayBeSitemap reports whether a media type is used for sitemaps and feeds, gzip files included,
// which need much memory when they are decompressed.
func MayBeSitemap(contentType string) bool {
	switch MediaType(contentType) {
	case "text/xml", "application/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml",
		"text/plain", "application/gzip", "application/x-gzip", "application/octet-stream":
		return true
	}
	return false
}

// sniffed is how many bytes of a decompressed body decide whether it is a sitemap.
const sniffed = 64 << 10

// isSitemap reports whether the body of a page is a sitemap or feed by its type and its first
// element or, if list is set, a plain text in which each line is an absolute URL. Many sitemaps are
// served as HTML.
func isSitemap(contentType string, body []byte, list bool) bool {
	isHTML := MediaType(contentType) == "text/html"
	if !isHTML && !MayBeSitemap(contentType) {
		return false
	}
	isText := MediaType(contentType) == "text/plain"
	if isText && !list {
		return false
	}
	if bytes.HasPrefix(body, []byte("\x1f\x8b")) && !isHTML {
		r, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return false
		}
		body, _ = io.ReadAll(io.LimitReader(r, sniffed)) // the beginning of a broken file is used
		isText = true
	}
	whole := len(body) < sniffed
	text := sitemapText(body[:min(len(body), sniffed)])
	if !bytes.HasPrefix(text, []byte("<")) {
		return list && isText && isURLList(text, whole)
	}
	z := newXMLTokenizer(text)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return false
		case html.StartTagToken, html.SelfClosingTagToken:
			switch _, local := tagName(z); local {
			case "urlset", "sitemapindex", "rss", "feed":
				return true
			case "rdf":
				return !isHTML
			}
			return false
		}
	}
}

// blanks count as white space in a list of URLs.
const blanks = " \t\v\f\x00\ufeff"

// isURLList reports whether a text consists of absolute URLs. The last line of a truncated text is
// ignored.
func isURLList(text []byte, whole bool) bool {
	if !whole {
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
	words := bytes.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(blanks+"\r\n", c) })
	return len(words) > 0 && !slices.ContainsFunc(words, func(word []byte) bool { return !isAbsolute(word) })
}

// mostPacked is the approximate maximum compression ratio of gzip.
const mostPacked = 1032

// unpack decompresses gzip, up to one byte over MaxSitemap, and reports whether the data were
// truncated.
func unpack(body []byte) (text []byte, broken bool, err error) {
	if !bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		return body, false, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	// The trailer of the file has its decompressed size; if it is correct the buffer never grows.
	says := int64(binary.LittleEndian.Uint32(body[len(body)-4:]))
	buf := bytes.NewBuffer(make([]byte, 0, min(says, MaxSitemap+1, int64(len(body))*mostPacked)+bytes.MinRead))
	_, err = buf.ReadFrom(io.LimitReader(r, MaxSitemap+1))
	if err != nil && buf.Len() == 0 {
		return nil, false, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	// The text is complete despite trailing bytes, or a wrong checksum.
	return buf.Bytes(), err != nil && !errors.Is(err, gzip.ErrHeader) && !errors.Is(err, gzip.ErrChecksum), nil
}

// urlList adds one absolute URL a line, of a truncated text without the last, which may be
// incomplete. A CR alone ends a line too.
func (x *Extractor) urlList(page *Page, text []byte, cut bool) {
	if cut {
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
	for line := range bytes.FieldsFuncSeq(text, func(c rune) bool { return c == '\r' || c == '\n' }) {
		if line = bytes.Trim(line, blanks); isAbsolute(line) {
			x.add(page, line, href{kind: link.KindPage, literal: true})
		}
	}
}

func isAbsolute(line []byte) bool {
	for _, scheme := range []string{"http://", "https://"} {
		if len(line) > len(scheme) && equalFold(line[:len(scheme)], scheme) {
			return true
		}
	}
	return false
}

const (
	// maxToken bounds the bytes of one token of a sitemap: feeds have whole pages with images in one
	// text.
	maxToken = 16 << 20
	// maxRestarts bounds how often the rest of a sitemap is read once more, after a tag that did not
	// end.
	maxRestarts = 20
)

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
	dating bool // the text of the current element is the time of the last change
	// first is the number of hrefs before the current entry, modified its last change in Unix seconds.
	first    int
	modified uint32
	isGUID   bool // the current element is an RSS item's GUID, which may be a URL
}

// sitemapXML adds the entries of an XML sitemap.
func (x *Extractor) sitemapXML(page *Page, text []byte) error {
	var at entries
	z, restarts := newXMLTokenizer(bytes.TrimSpace(text)), 0
	for room := true; room; {
		kind := z.Next()
		switch kind {
		case html.ErrorToken:
			if err := z.Err(); !errors.Is(err, io.EOF) {
				return fmt.Errorf("read sitemap: %w: %w", ErrSitemap, err)
			}
			rest := z.Raw() // an unclosed quote hides what follows
			if len(rest) == 0 {
				return nil
			}
			if restarts++; restarts > maxRestarts {
				return fmt.Errorf("read sitemap: %w: over %d tags do not end", ErrSitemap, maxRestarts)
			}
			z = newXMLTokenizer(rest[1:])
		case html.StartTagToken, html.SelfClosingTagToken:
			prefix, local := at.open(z)
			if at.entry == local && at.depth == at.level {
				at.first, at.modified = len(x.found), 0
				page.Feed = page.Feed || entryKinds[local].child == "link"
			}
			if url := at.link(z, local); url != "" {
				room = x.add(page, []byte(url), href{kind: link.KindPage, literal: true})
			}
			if kind == html.SelfClosingTagToken {
				at.close(prefix, local)
			}
		case html.TextToken:
			if at.taking || at.dating {
				at.add(z.Raw())
			}
		case html.EndTagToken:
			if url := at.url(); url != nil {
				room = x.add(page, bytes.Clone(url), href{kind: at.kind, literal: true})
			}
			if at.dating {
				at.modified = max(at.modified, parseDate(string(bytes.TrimSpace(at.text))))
			}
			prefix, local := tagName(z)
			if local == at.entry && prefix == at.prefix {
				for i := min(at.first, len(x.found)); i < len(x.found); i++ {
					x.found[i].modified = at.modified
				}
			}
			at.close(prefix, local)
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
	at.taking, at.dating, at.isGUID, at.text = false, false, false, at.text[:0]
	if of, known := entryKinds[local]; known && (at.entry == "" || !slices.Contains(extensions, prefix)) {
		at.entry, at.prefix, at.level, at.kind = local, prefix, at.depth, of.kind
	} else if at.entry != "" && at.depth == at.level+1 && prefix == at.prefix {
		at.isGUID = at.entry == "item" && local == "guid"
		at.taking = at.isGUID || local == entryKinds[at.entry].child
		at.dating = local == "lastmod" || local == "updated" || local == "pubdate"
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
	url := bytes.Trim(at.text, " \t\r\n\u00a0")
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
	at.taking, at.dating, at.text = false, false, at.text[:0]
	if local == at.entry && prefix == at.prefix {
		at.entry, at.depth = "", at.level
	}
	at.depth = max(at.depth-1, 0)
}

// parseDate returns the Unix seconds of a date of a sitemap (W3C), of Atom (RFC 3339) or of RSS
// (RFC 822); 0 if it is none.
func parseDate(text string) uint32 {
	for _, layout := range []string{time.RFC3339, time.DateOnly, "2006-01-02T15:04Z07:00", time.RFC1123Z, time.RFC1123} {
		if t, err := time.Parse(layout, text); err == nil {
			return uint32(min(max(t.Unix(), 0), math.MaxUint32))
		}
	}
	return 0
}

// extensions are the usual prefixes of extensions of sitemaps, whose elements describe images,
// videos and the like, or of HTML or media feeds.
var extensions = []string{"image", "video", "news", "mobile", "xhtml", "media"}
