package extract

import (
	"bytes"
	"strings"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// prescanBytes is how far the standard looks for a meta element that names the encoding. One that
// comes later counts as well: nothing that depends on the encoding is decided before the document's
// end.
const prescanBytes = 1024

// charset is a document's encoding and how it is known.
type charset struct {
	name      string // WHATWG name in lower case
	enc       encoding.Encoding
	tentative bool // by default, or by an XML declaration: a meta element may still say otherwise
}

// detect finds the encoding of an HTML document (HTML standard, "determining the character
// encoding"): byte order mark, then the header, then a meta element, then an XML declaration, then
// windows-1252. Of XHTML a meta element says nothing, and UTF-8 is what is left.
func detect(contentType string, body []byte) charset {
	if c := byteOrder(body); c.enc != nil {
		return c
	}
	if c := lookup(headerCharset(contentType)); c.enc != nil {
		return c
	}
	head := body[:min(len(body), prescanBytes)]
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
	if m := prescan(head); m.enc != nil {
		return m
	}
	if c.enc == nil {
		c = lookup("windows-1252")
	}
	c.tentative = !c.whole()
	return c
}

// headerCharset returns the label in a Content-Type header, empty without one. It reads on behind
// what is malformed, as browsers do.
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

// byZeros returns the UTF-16 of a text that begins with two characters of ASCII but not with a
// mark: one of two bytes is zero.
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

// lookupMeta is lookup for a label that stands in the document itself: whoever could read it that
// far does not read UTF-16.
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

// whole reports whether markup is not written in ASCII bytes, so that the document is transcoded
// before it is scanned. In all other encodings the bytes of markup stand for themselves wherever
// they occur outside of a character.
func (c charset) whole() bool {
	switch c.name {
	case "utf-16le", "utf-16be", "iso-2022-jp", "replacement":
		return true
	}
	return false
}

// wideDeclaration returns the UTF-16 in which an XML declaration begins; enc is nil if none does.
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

// declared returns the encoding that an XML declaration names (HTML standard, "get an XML
// encoding"); enc is nil if none does.
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

// trimControls cuts what counts as white space in an XML declaration off the front.
func trimControls(s []byte) []byte {
	return bytes.TrimLeftFunc(s, func(r rune) bool { return r <= ' ' })
}
