package extract

import (
	"bytes"
	"encoding/binary"
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
	c := byteOrder(body)
	if c.enc == nil {
		c = byZeros(body)
	}
	if c.enc != nil {
		body = transcode(c.enc, body)
	}
	text := bytes.TrimLeft(body, " \t\r\n\v\f\x00\ufeff")
	if bytes.HasPrefix(text, []byte("<")) {
		err = x.sitemapXML(page, text)
	} else {
		x.sitemapText(page, text)
	}
	x.resolve(page, base)
	x.finish(page)
	return err
}

// mostPacked is how many times smaller gzip makes a file at most, about.
const mostPacked = 1032

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
	// The file says at its end how long it is unpacked; without a lie nothing is copied while it grows.
	says := int64(binary.LittleEndian.Uint32(body[len(body)-4:]))
	buf := bytes.NewBuffer(make([]byte, 0, min(says, MaxSitemap+1, int64(len(body))*mostPacked)+bytes.MinRead))
	_, err = buf.ReadFrom(io.LimitReader(r, MaxSitemap+1))
	text := buf.Bytes()
	if err != nil && len(text) == 0 {
		return nil, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	if len(text) > MaxSitemap {
		page.Truncated = true
		text = text[:MaxSitemap]
	}
	return text, nil
}

// sitemapText notes one absolute URL a line. A CR alone ends a line too, and NULs count as white space.
func (x *Extractor) sitemapText(page *Page, text []byte) {
	for line := range bytes.FieldsFuncSeq(text, func(c rune) bool { return c == '\r' || c == '\n' }) {
		line = bytes.Trim(line, " \t\v\f\x00\ufeff")
		if isAbsolute(line) {
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
