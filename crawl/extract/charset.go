package extract

import (
	"bytes"
	"net/http"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"

	"github.com/apoidea/apoidea/crawl/link"
)

// declarationBytes is how far an XML declaration reaches.
const declarationBytes = 1024

// charset is a document's encoding and its source.
type charset struct {
	name      string // WHATWG name in lower case
	enc       encoding.Encoding
	tentative bool // by default, or by an XML declaration: a meta element may override it
}

// detect determines the encoding of an HTML document (HTML standard, "determining the character
// encoding"): byte order mark, then the header, then a meta element, then an XML declaration, then
// windows-1252. Meta elements are left to the scan: nothing that depends on the encoding is decided
// before the document's end. In XHTML they are ignored, and UTF-8 is the default.
func detect(contentType string, body []byte) charset {
	if c := byteOrder(body); c.enc != nil {
		return c
	}
	if c := lookup(headerCharset(contentType)); c.enc != nil {
		return c
	}
	head := body[:min(len(body), declarationBytes)]
	if c := wideDeclaration(head); c.enc != nil {
		return c
	}
	c := declared(head)
	if isXHTML(contentType) {
		if c.enc == nil {
			return lookup("utf-8")
		}
		return c
	}
	if c.enc == nil {
		c = lookup("windows-1252")
	}
	// A meta element would come too late for this encoding, whose characters contain markup.
	if bytes.Contains(body, []byte("\x1b$B")) || bytes.Contains(body, []byte("\x1b$@")) {
		c = lookup("iso-2022-jp")
	}
	c.tentative = !c.whole()
	return c
}

// headerCharset returns the label in a Content-Type header, "" without one. It skips malformed
// parts, as browsers do.
func headerCharset(contentType string) string {
	_, params, _ := strings.Cut(contentType, ";")
	label, _, _ := bytes.Cut(contentCharset([]byte(params)), []byte(","))
	return string(label)
}

// contentCharset extracts an encoding's label from a meta element's content (HTML standard, the
// algorithm of that name).
func contentCharset(s []byte) []byte {
	for {
		i := indexFold(s, "charset")
		if i < 0 {
			return nil
		}
		s = s[i+len("charset"):]
		rest := bytes.TrimLeft(s, " \t\n\f\r")
		if len(rest) == 0 || rest[0] != '=' {
			continue
		}
		rest = bytes.TrimLeft(rest[1:], " \t\n\f\r")
		if len(rest) == 0 {
			return nil
		}
		if q := rest[0]; q == '"' || q == '\'' {
			if end := bytes.IndexByte(rest[1:], q); end >= 0 {
				return rest[1 : 1+end]
			}
			return nil
		}
		if end := bytes.IndexAny(rest, " \t\n\f\r;"); end >= 0 {
			rest = rest[:end]
		}
		return rest
	}
}

// indexFold returns the index of the first lower-case word in s, ignoring ASCII case, or -1.
func indexFold(s []byte, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if equalFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}

// byteOrder returns the encoding of a byte order mark; enc is nil without one.
func byteOrder(body []byte) charset {
	for _, bom := range []struct{ mark, name string }{{"\xef\xbb\xbf", "utf-8"}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"}} {
		if bytes.HasPrefix(body, []byte(bom.mark)) {
			return lookup(bom.name)
		}
	}
	return charset{}
}

// byZeros returns UTF-16 for a text without a byte order mark whose first two characters are ASCII:
// one of two bytes is zero.
func byZeros(body []byte) charset {
	switch {
	case len(body) < 4 || (body[0] == 0) == (body[1] == 0) || (body[0] == 0) != (body[2] == 0) || (body[1] == 0) != (body[3] == 0):
		return charset{}
	case body[0] == 0:
		return lookup("utf-16be")
	default:
		return lookup("utf-16le")
	}
}

// lookup finds an encoding by any of its labels; enc is nil if there is none.
func lookup(label string) charset {
	enc, err := htmlindex.Get(label)
	if err != nil {
		return charset{}
	}
	name, err := htmlindex.Name(enc)
	if err != nil {
		return charset{}
	}
	return charset{name: name, enc: enc}
}

// lookupMeta is lookup for a label in the document itself: since it was readable, it is not UTF-16.
func lookupMeta(label []byte) charset {
	c := lookup(string(trimSpace(label)))
	switch c.name {
	case "utf-16le", "utf-16be":
		return lookup("utf-8")
	case "x-user-defined":
		return lookup("windows-1252")
	}
	return c
}

// whole reports whether markup is not in ASCII bytes, so that the document is transcoded before it
// is scanned. In all other encodings ASCII bytes outside of a character are themselves.
func (c charset) whole() bool {
	switch c.name {
	case "utf-16le", "utf-16be", "iso-2022-jp", "replacement":
		return true
	}
	return false
}

// wideDeclaration returns UTF-16 if the body begins with an XML declaration in it; enc is nil
// otherwise.
func wideDeclaration(body []byte) charset {
	switch {
	case bytes.HasPrefix(body, []byte("<\x00?\x00x\x00")):
		return lookup("utf-16le")
	case bytes.HasPrefix(body, []byte("\x00<\x00?\x00x")):
		return lookup("utf-16be")
	default:
		return charset{}
	}
}

// declared returns the encoding of an XML declaration (HTML standard, "get an XML encoding"); enc
// is nil without one.
func declared(body []byte) charset {
	declaration, _, closed := bytes.Cut(body, []byte(">"))
	if !closed || !bytes.HasPrefix(declaration, []byte("<?xml")) {
		return charset{}
	}
	_, after, _ := bytes.Cut(declaration, []byte("encoding"))
	after, ok := bytes.CutPrefix(trimControls(after), []byte("="))
	if !ok {
		return charset{}
	}
	after = trimControls(after)
	if len(after) == 0 || after[0] != '"' && after[0] != '\'' {
		return charset{}
	}
	label, _, ok := bytes.Cut(after[1:], after[:1])
	if !ok || bytes.ContainsFunc(label, func(r rune) bool { return r <= ' ' }) {
		return charset{}
	}
	return lookupMeta(label)
}

// trimControls removes leading white space as defined for an XML declaration.
func trimControls(s []byte) []byte {
	return bytes.TrimLeftFunc(s, func(r rune) bool { return r <= ' ' })
}

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
