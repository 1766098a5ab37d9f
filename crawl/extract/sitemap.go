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

// MaxSitemap is how many bytes of a sitemap are taken, as it comes and once it is unpacked: the
// bound of the sitemap protocol. What is behind is left out.
const MaxSitemap = 50 << 20

// ErrSitemap says that a body is no sitemap.
var ErrSitemap = errors.New("not a sitemap")

// Sitemap extracts a sitemap: an XML url set or index (its entries are sitemaps), an RSS or Atom
// feed, or a text of one URL a line; packed with gzip or not. What was read before an error is in
// page all the same. cut says that body is only the beginning of one, so that a URL at its end may
// be half of one.
func (x *Extractor) Sitemap(page *Page, sitemapURL string, body []byte, cut bool) error {
	base, err := x.begin(page, sitemapURL)
	if err != nil {
		return err
	}
	body, over, err := unpack(body)
	if err != nil {
		return err
	}
	if len(body) > MaxSitemap {
		page.Truncated = true
		page.LeftOut++
		body, over = body[:MaxSitemap], true
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
		x.sitemapText(page, text, cut || over)
	}
	x.resolve(page, base)
	x.finish(page)
	return err
}

// mostPacked is how many times smaller gzip makes a file at most, about.
const mostPacked = 1032

// unpack undoes gzip, up to one byte over MaxSitemap, and says whether the packed text broke off.
func unpack(body []byte) (text []byte, broken bool, err error) {
	if !bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		return body, false, nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, false, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	// The file says at its end how long it is unpacked; without a lie nothing is copied while it
	// grows.
	says := int64(binary.LittleEndian.Uint32(body[len(body)-4:]))
	buf := bytes.NewBuffer(make([]byte, 0, min(says, MaxSitemap+1, int64(len(body))*mostPacked)+bytes.MinRead))
	_, err = buf.ReadFrom(io.LimitReader(r, MaxSitemap+1))
	if err != nil && buf.Len() == 0 {
		return nil, false, fmt.Errorf("unpack sitemap: %w: %w", ErrSitemap, err)
	}
	// The text is whole in spite of other bytes behind the file, or of a wrong checksum.
	return buf.Bytes(), err != nil && !errors.Is(err, gzip.ErrHeader) && !errors.Is(err, gzip.ErrChecksum), nil
}

// sitemapText notes one absolute URL a line, of a text that was cut without the last, which may be
// half of one. A CR alone ends a line too, and NULs count as white space.
func (x *Extractor) sitemapText(page *Page, text []byte, cut bool) {
	if cut {
		text = text[:bytes.LastIndexAny(text, "\r\n")+1]
	}
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
