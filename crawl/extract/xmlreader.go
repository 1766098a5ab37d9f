package extract

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
)

// mostFaults bounds the syntax errors of one document after which parsing continues.
const mostFaults = 10_000

// xmlReader reads the tokens of an XML document as browsers read HTML: it continues after a syntax
// error. Feeds are assembled from texts of others, and one invalid byte, or a comment with two
// hyphens in it, would hide the rest.
type xmlReader struct {
	text    []byte
	decoder *xml.Decoder
	from    int  // where the decoder began
	mends   bool // its offsets are those of text
	faults  int
	first   error
}

// fault is the token for an unreadable part.
type fault struct{}

// newXMLReader begins after the declaration, which may name an unknown version or encoding. A text
// in an unknown encoding is read as UTF-8.
func newXMLReader(text []byte) *xmlReader {
	r := &xmlReader{text: text, mends: true}
	c := declared(text)
	if bytes.HasPrefix(text, []byte("<?xml")) {
		if _, rest, ended := bytes.Cut(text, []byte("?>")); ended {
			r.text = rest
		}
	}
	r.begin(0)
	if c.enc != nil && c.name != "utf-8" && c.name != "replacement" {
		r.mends = false
		r.decoder = newDecoder(c.enc.NewDecoder().Reader(bytes.NewReader(r.text)))
	}
	return r
}

func newDecoder(text io.Reader) *xml.Decoder {
	d := xml.NewDecoder(text)
	d.Strict = false
	d.CharsetReader = func(_ string, text io.Reader) (io.Reader, error) { return text, nil }
	return d
}

func (r *xmlReader) begin(at int) {
	r.from, r.decoder = at, newDecoder(bytes.NewReader(r.text[at:]))
}

// next returns the next token, or a fault. An error is the end.
func (r *xmlReader) next() (xml.Token, error) {
	at := r.from + int(r.decoder.InputOffset())
	token, err := r.decoder.RawToken()
	if err == nil || errors.Is(err, io.EOF) {
		return token, err
	}
	if r.first == nil {
		r.first = err
	}
	if r.faults++; !r.mends || r.faults > mostFaults {
		return nil, err
	}
	behind := behindFault(r.text[at:])
	if behind < 0 {
		return nil, err
	}
	r.begin(at + behind)
	return fault{}, nil
}

// behindFault returns where to continue in a text that begins with an unreadable part; -1: nowhere.
func behindFault(text []byte) int {
	for _, of := range []struct{ begin, end string }{{"<!--", "-->"}, {"<![CDATA[", "]]>"}} {
		if rest, ok := bytes.CutPrefix(text, []byte(of.begin)); ok {
			if i := bytes.Index(rest, []byte(of.end)); i >= 0 {
				return len(of.begin) + i + len(of.end)
			}
			return -1
		}
	}
	if i := bytes.IndexByte(text[min(1, len(text)):], '<'); i >= 0 {
		return 1 + i
	}
	return -1
}
