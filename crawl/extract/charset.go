package extract

import (
	"bytes"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// prescanBytes is how far the standard looks for a meta element that names the encoding. One that comes later counts as well: nothing that
// depends on the encoding is decided before the document's end.
const prescanBytes = 1024

// charset is a document's encoding and how it is known.
type charset struct {
	name      string // WHATWG name in lower case
	enc       encoding.Encoding
	tentative bool // only by default: a meta element may still say otherwise
}

// detect finds the encoding of an HTML document (HTML standard, "determining the character encoding"): byte order mark, then the header,
// then a meta element or an XML declaration, then windows-1252, or UTF-8 for XHTML.
func detect(contentType string, body []byte) charset {
	if c := byteOrder(body); c.enc != nil {
		return c
	}
	if c := lookup(headerCharset(contentType)); c.enc != nil {
		return c
	}
	if c := declared(body); c.enc != nil && isXHTML(contentType) {
		return c
	}
	if isXHTML(contentType) {
		return lookup("utf-8")
	}
	if c := prescan(body[:min(len(body), prescanBytes)]); c.enc != nil {
		return c
	}
	c := lookup("windows-1252")
	c.tentative = true
	return c
}

// headerCharset returns the label in a Content-Type header, empty without one. It reads on behind what is malformed, as browsers do.
func headerCharset(contentType string) string {
	_, params, _ := strings.Cut(contentType, ";")
	label, _, _ := bytes.Cut(contentCharset([]byte(params)), []byte(","))
	return string(label)
}

// byteOrder returns the encoding that a byte order mark tells; enc is nil without one.
func byteOrder(body []byte) charset {
	for _, bom := range []struct{ mark, name string }{{"\xef\xbb\xbf", "utf-8"}, {"\xff\xfe", "utf-16le"}, {"\xfe\xff", "utf-16be"}} {
		if bytes.HasPrefix(body, []byte(bom.mark)) {
			return lookup(bom.name)
		}
	}
	return charset{}
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

// lookupMeta is lookup for a label that stands in the document itself: whoever could read it that far does not read UTF-16.
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

// whole reports whether markup is not written in ASCII bytes, so that the document is transcoded before it is scanned. In all other
// encodings the bytes of markup stand for themselves wherever they occur outside of a character.
func (c charset) whole() bool {
	switch c.name {
	case "utf-16le", "utf-16be", "iso-2022-jp", "replacement":
		return true
	}
	return false
}

// declared returns the encoding of an XML declaration.
func declared(body []byte) charset {
	if !bytes.HasPrefix(body, []byte("<?xml")) {
		return charset{}
	}
	declaration, _, closed := bytes.Cut(body, []byte(">"))
	_, after, ok := bytes.Cut(declaration, []byte("encoding"))
	after = bytes.TrimLeft(after, " \t\r\n=")
	if !closed || !ok || len(after) < 2 {
		return charset{}
	}
	label, _, ok := bytes.Cut(after[1:], after[:1])
	if !ok {
		return charset{}
	}
	return lookupMeta(label)
}

// prescan is the standard's "prescan a byte stream to determine its encoding".
func prescan(s []byte) charset {
	for i := 0; i < len(s); {
		j := bytes.IndexByte(s[i:], '<')
		if j < 0 {
			break
		}
		i += j
		switch rest := s[i:]; {
		case bytes.HasPrefix(rest, []byte("<!--")):
			end := bytes.Index(rest[2:], []byte("-->")) // the dashes may be the same
			if end < 0 {
				return charset{}
			}
			i += 2 + end + 3
		case len(rest) > 5 && equalFold(rest[1:5], "meta") && (isSpace(rest[5]) || rest[5] == '/'):
			var c charset
			if c, i = prescanMeta(s, i+6); c.enc != nil {
				return c
			}
		case len(rest) > 1 && isLetter(rest[1]), len(rest) > 2 && rest[1] == '/' && isLetter(rest[2]):
			for i < len(s) && !isSpace(s[i]) && s[i] != '>' {
				i++
			}
			for ok := true; ok; {
				_, _, i, ok = prescanAttribute(s, i)
			}
			i++ // the >
		case len(rest) > 1 && (rest[1] == '!' || rest[1] == '/' || rest[1] == '?'):
			end := bytes.IndexByte(rest, '>')
			if end < 0 {
				return charset{}
			}
			i += end + 1
		default:
			i++
		}
	}
	return charset{}
}

// prescanMeta reads the attributes of a meta element from s[i:]. A document that ends in one says nothing.
func prescanMeta(s []byte, i int) (charset, int) {
	var m meta
	for {
		name, value, next, ok := prescanAttribute(s, i)
		i = next
		if !ok {
			break
		}
		m.set(name, value)
	}
	if i >= len(s) {
		return charset{}, i
	}
	return m.charset(), i + 1
}

// meta is what a meta element says about the encoding.
type meta struct {
	seen               uint8 // attributes that were there, by their bit below
	pragma             bool  // http-equiv is content-type
	direct, indirect   charset
	hasDirect, hasText bool
}

func (m *meta) set(name, value []byte) {
	switch {
	case equalFold(name, "http-equiv") && m.seen&1 == 0:
		m.seen |= 1
		m.pragma = equalFold(value, "content-type")
	case equalFold(name, "content") && m.seen&2 == 0:
		m.seen |= 2
		if label := contentCharset(value); label != nil {
			m.hasText, m.indirect = true, lookupMeta(label)
		}
	case equalFold(name, "charset") && m.seen&4 == 0:
		m.seen |= 4
		m.hasDirect, m.direct = true, lookupMeta(value)
	}
}

// charset returns what the element says; enc is nil if nothing or nothing known.
func (m *meta) charset() charset {
	switch {
	case m.hasDirect:
		return m.direct
	case m.hasText && m.pragma:
		return m.indirect
	default:
		return charset{}
	}
}

// contentCharset extracts an encoding's label from a meta element's content (HTML standard, the algorithm of that name).
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

// indexFold returns where the lower-case word first stands in s without regard to ASCII case, or -1.
func indexFold(s []byte, word string) int {
	for i := 0; i+len(word) <= len(s); i++ {
		if equalFold(s[i:i+len(word)], word) {
			return i
		}
	}
	return -1
}

// prescanAttribute is the standard's "get an attribute": the attribute at s[i:] and where the next begins; ok is false at the end of the tag,
// which next points at, and at the end of s.
func prescanAttribute(s []byte, i int) (name, value []byte, next int, ok bool) {
	for i < len(s) && (isSpace(s[i]) || s[i] == '/') {
		i++
	}
	if i >= len(s) || s[i] == '>' {
		return nil, nil, i, false
	}
	begin := i
	for i < len(s) && !isSpace(s[i]) && s[i] != '/' && s[i] != '>' && (s[i] != '=' || i == begin) {
		i++
	}
	name = s[begin:i]
	for i < len(s) && isSpace(s[i]) {
		i++
	}
	if i >= len(s) {
		return nil, nil, i, false
	}
	if s[i] != '=' {
		return name, nil, i, true
	}
	for i++; i < len(s) && isSpace(s[i]); i++ {
	}
	if i >= len(s) {
		return nil, nil, i, false
	}
	if q := s[i]; q == '"' || q == '\'' {
		end := bytes.IndexByte(s[i+1:], q)
		if end < 0 {
			return nil, nil, len(s), false
		}
		return name, s[i+1 : i+1+end], i + 2 + end, true
	}
	begin = i
	for i < len(s) && !isSpace(s[i]) && s[i] != '>' {
		i++
	}
	return name, s[begin:i], i, i < len(s)
}
