package extract

import (
	"bytes"
	"net/http"

	"github.com/apoidea/apoidea/crawl/link"
)

// Limits of Link headers in one answer: sites name some style sheets there, the previous and next
// pages, and one page in each language. A head can hold a thousand links, which cost the site
// nothing and are invisible to its readers.
const (
	MaxHeaderLinks     = 256
	MaxHeaderLinkBytes = 32 << 10 // as written
)

// header obeys an answer's X-Robots-Tag and adds the links of its Link and Refresh headers,
// relative to the page itself.
func (x *Extractor) header(page *Page, base *link.Base, header http.Header, opt Options) {
	for _, value := range header["X-Robots-Tag"] {
		page.robotsTag(value, opt.Agent)
	}
	x.headerBytes = 0
	for _, value := range header["Link"] {
		x.linkHeader(page, []byte(link.EscapeInvalid(value)), opt)
	}
	for _, value := range header["Refresh"] {
		if url := refreshURL([]byte(link.EscapeInvalid(value))); url != nil {
			x.add(page, url, href{kind: link.KindPage, literal: true})
		}
	}
	x.resolve(page, base)
}

// linkHeader adds the links of one Link header (RFC 8288, section 3). It stops at a syntax error.
func (x *Extractor) linkHeader(page *Page, s []byte, opt Options) {
	for {
		s = bytes.TrimLeft(s, " \t,")
		if len(s) == 0 || s[0] != '<' {
			return
		}
		end := bytes.IndexByte(s, '>')
		if end < 0 {
			return
		}
		url := s[1:end]
		var rel []byte
		if rel, s = linkParams(s[end+1:]); rel == nil {
			continue
		}
		if kind, nofollow, ok := relation(rel); ok && (kind != link.KindRequisite || opt.Requisites) {
			x.addHeader(page, url, href{kind: kind, nofollow: nofollow, literal: true})
		}
	}
}

// addHeader adds one link of a Link header, or counts it as omitted.
func (x *Extractor) addHeader(page *Page, url []byte, h href) {
	if !x.hrefs.has(withoutFragment(url)) {
		if len(x.found) >= MaxHeaderLinks || x.headerBytes+len(url) > MaxHeaderLinkBytes {
			page.LeftOut++
			return
		}
		x.headerBytes += len(withoutFragment(url))
	}
	x.add(page, url, h)
}

// linkParams parses the parameters of one link and returns its relations, from the first parameter
// rel (nil without), and the rest after the comma.
func linkParams(s []byte) (rel, rest []byte) {
	for {
		s = bytes.TrimLeft(s, " \t;")
		if len(s) == 0 || s[0] == ',' {
			return rel, s
		}
		n := bytes.IndexAny(s, "=;,")
		if n < 0 {
			return rel, nil
		}
		name := trimSpace(s[:n])
		if s = s[n:]; s[0] != '=' {
			continue
		}
		var value []byte
		value, s = paramValue(bytes.TrimLeft(s[1:], " \t"))
		if rel == nil && equalFold(name, "rel") {
			rel = value
		}
	}
}

// paramValue parses a token, or a quoted string with backslash escapes.
func paramValue(s []byte) (value, rest []byte) {
	if len(s) == 0 || s[0] != '"' {
		if n := bytes.IndexAny(s, ";,"); n >= 0 {
			return s[:n], s[n:]
		}
		return s, nil
	}
	value = []byte{}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return value, s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		value = append(value, s[i])
	}
	return value, nil
}
