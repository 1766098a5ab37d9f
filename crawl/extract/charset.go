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

// byZeros returns the UTF-16 of a text that begins with two characters of ASCII but not with a mark: one of two bytes is zero.
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
