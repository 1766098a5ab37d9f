package extract

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"

	"github.com/apoidea/apoidea/crawl/link"
)

// MaxSitemap is how many bytes of a sitemap are read once it is unpacked: the bound of the sitemap protocol. What is behind is left out.
const MaxSitemap = 50 << 20

// ErrSitemap says that a body is no sitemap.
var ErrSitemap = errors.New("not a sitemap")

// Sitemap extracts a sitemap: an XML url set or index (its entries are sitemaps), an RSS or Atom feed, or a text of one URL a line; packed
// with gzip or not. What was read before an error is in page all the same.
func (x *Extractor) Sitemap(page *Page, sitemapURL string, body []byte) error {
	base, err := x.begin(page, sitemapURL)
	if err != nil {
		return err
	}
	if body, err = unpack(page, body); err != nil {
		return err
	}
	if c := byteOrder(body); c.enc != nil {
		body = transcode(c.enc, body)
	}
	text := bytes.TrimLeft(body, " \t\r\n")
	if bytes.HasPrefix(text, []byte("<")) {
		err = x.sitemapXML(page, text)
	} else {
		x.sitemapText(page, text)
	}
	x.resolve(page, base)
	x.finish(page)
	return err
}

// unpack undoes gzip, up to MaxSitemap bytes.
func unpack(page *Page, body []byte) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		if len(body) > MaxSitemap {
			page.Truncated = true
			body = body[:MaxSitemap]
		}
		return body, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	text, err := io.ReadAll(io.LimitReader(r, MaxSitemap+1))
	if err != nil && len(text) == 0 {
		return nil, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	if len(text) > MaxSitemap {
		page.Truncated = true
		text = text[:MaxSitemap]
	}
	return text, nil
}

// sitemapText notes one absolute URL a line.
func (x *Extractor) sitemapText(page *Page, text []byte) {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); bytes.HasPrefix(line, []byte("http://")) || bytes.HasPrefix(line, []byte("https://")) {
			x.add(page, line, href{kind: link.KindPage, literal: true})
		}
	}
}

// places says which elements of which parent name a URL: in their text, or in an attribute href.
var places = map[[2]string]link.Kind{
	{"url", "loc"}: link.KindPage, {"sitemap", "loc"}: link.KindSitemap, // sitemaps.org
	{"item", "link"}: link.KindPage, {"entry", "link"}: link.KindPage, // RSS, Atom
	{"url", "link"}: link.KindPage, // xhtml:link of another language
}

// entries is where a sitemap is being read: local names of the entry around and of the element at hand, and the text in that.
type entries struct {
	parent, here string
	text         []byte
}

// sitemapXML notes the entries of an XML sitemap. The decoder is asked for raw tokens: it keeps no stack then, so that depth costs nothing.
func (x *Extractor) sitemapXML(page *Page, text []byte) error {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = false
	d.CharsetReader = charsetReader
	var at entries
	for room := true; room; {
		token, err := d.RawToken()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read sitemap: %w: %w", ErrSitemap, err)
		}
		switch t := token.(type) {
		case xml.StartElement:
			at.open(t.Name)
			if kind, ok := at.place(); ok && alternate(t.Attr) {
				room = x.addAttr(page, t.Attr, kind)
			}
		case xml.CharData:
			if _, ok := at.place(); ok {
				at.text = append(at.text, t...)
			}
		case xml.EndElement:
			if kind, ok := at.place(); ok && t.Name.Local == at.here {
				if url := bytes.TrimSpace(at.text); len(url) > 0 {
					room = x.add(page, bytes.Clone(url), href{kind: kind, literal: true})
				}
			}
			at.close(t.Name)
		}
	}
	return nil
}

func (at *entries) open(name xml.Name) {
	switch name.Local {
	case "url", "sitemap", "item", "entry":
		at.parent = name.Local
	}
	at.here, at.text = name.Local, at.text[:0]
	if name.Local == "loc" && !isSitemapPrefix(name.Space) {
		at.here = "" // image:loc and the like
	}
}

func (at *entries) close(name xml.Name) {
	if name.Local == at.parent {
		at.parent = ""
	}
	at.here, at.text = "", at.text[:0]
}

// place reports whether the element at hand names a URL, and of what kind.
func (at *entries) place() (link.Kind, bool) {
	kind, ok := places[[2]string{at.parent, at.here}]
	return kind, ok
}

// isSitemapPrefix reports whether a prefix is not one of the known extensions, whose loc elements name images and videos.
func isSitemapPrefix(prefix string) bool {
	switch prefix {
	case "image", "video", "news", "mobile":
		return false
	}
	return true
}

// alternate reports whether a link element leads to the entry itself or to a version of it.
func alternate(attrs []xml.Attr) bool {
	for _, a := range attrs {
		if a.Name.Local == "rel" && a.Value != "alternate" {
			return false
		}
	}
	return true
}

// addAttr notes the URL in an attribute href, if there is one; false if there are too many.
func (x *Extractor) addAttr(page *Page, attrs []xml.Attr, kind link.Kind) bool {
	for _, a := range attrs {
		if a.Name.Local == "href" {
			return x.add(page, []byte(a.Value), href{kind: kind, literal: true})
		}
	}
	return true
}

// charsetReader decodes what an XML declaration announces. UTF-16 has been decoded by its byte order mark before.
func charsetReader(label string, input io.Reader) (io.Reader, error) {
	c := lookup(label)
	if c.enc == nil {
		return nil, fmt.Errorf("charset %q is not known", label)
	}
	if c.whole() {
		return input, nil
	}
	return c.enc.NewDecoder().Reader(input), nil
}
