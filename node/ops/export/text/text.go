package text

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"

	"github.com/apoidea/apoidea/crawl/extract"
)

// MaxBytes limits the plain text of a page; the rest is left out.
const MaxBytes = 4 << 20

// Page is the text of a document.
type Page struct {
	Title string
	// Text is that of the whole page, one line for each block, with an empty line between paragraphs.
	Text string
	// Cut reports that Text reached MaxBytes.
	Cut bool
	// Main is the text without navigation and the like; empty if no such part was found.
	Main     string
	Language Language
	// SimHash is that of the words of Text.
	SimHash uint64
}

// Extractor extracts the text of documents. It reuses buffers and is not safe for concurrent use.
// The zero value is ready to use.
type Extractor struct {
	out    writer
	markup []byte // for the main text
	tags   int    // in markup
}

// IsText reports whether a response has a text: HTML, XHTML or plain text.
func IsText(contentType string, body []byte) bool {
	if extract.MediaType(contentType) == "text/plain" {
		return strings.HasPrefix(http.DetectContentType(body), "text/")
	}
	return extract.IsHTML(contentType, body)
}

// Page extracts the text of a body, with its main text on request. If only the main text failed,
// the page is returned with the error; without a page all of it failed.
func (x *Extractor) Page(contentType string, body []byte, wantMain bool) (page *Page, err error) {
	defer func() {
		if r := recover(); r != nil {
			page, err = nil, fmt.Errorf("text: %v", r)
			*x = Extractor{}
		}
	}()
	doc := decode(contentType, body)
	x.out.reset()
	p := &Page{}
	isHTML := extract.IsHTML(contentType, body)
	if isHTML {
		p.Title = Title(doc)
		x.html(doc, strings.HasPrefix(extract.MediaType(contentType), "application/"), wantMain)
	} else {
		x.out.pre = 1
		x.out.text(doc)
	}
	p.Text, p.Cut = x.out.String()
	p.SimHash = SimHash(p.Text)
	if wantMain && isHTML {
		p.Main, err = x.main()
	}
	p.Language = Detect(p.Text)
	return p, err
}

// Limits of the input of the library, which cannot be stopped; a page of 4 MiB takes half a second.
const (
	maxMarkup = 4 << 20
	maxTags   = 100_000
)

// main returns the main text of the markup.
func (x *Extractor) main() (text string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("main text: %v", p)
		}
	}()
	if len(x.markup) > maxMarkup || x.tags > maxTags {
		return "", fmt.Errorf("main text: page exceeds %d bytes or %d tags", maxMarkup, maxTags)
	}
	return mainText(x.markup)
}

// metaBytes is how far decode searches for a meta element. Browsers search 1024 bytes and read the
// document again for a later one.
const metaBytes = 64 << 10

// decode returns a document in UTF-8 without its byte order mark. The encoding is found as browsers
// do, except that undeclared UTF-8 is detected, as the HTML standard allows.
func decode(contentType string, body []byte) []byte {
	e, name, certain := charset.DetermineEncoding(body, contentType)
	if !certain {
		if declared, label := declaredIn(body[:min(len(body), metaBytes)]); declared != nil {
			e, name, certain = declared, label, true
		}
	}
	if name != "utf-8" && certain || !utf8.Valid(body) {
		if text, err := e.NewDecoder().Bytes(body); err == nil {
			body = text
		}
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF"))
}

// declaredIn returns the encoding that the first meta element with a known one declares; nil
// without one. UTF-16 there means UTF-8 (HTML standard, 13.2.3.2).
func declaredIn(doc []byte) (encoding.Encoding, string) {
	tokens := html.NewTokenizer(bytes.NewReader(doc))
	for tokens.Next() != html.ErrorToken {
		t := tokens.Token()
		if t.Data != "meta" || t.Type == html.EndTagToken {
			continue
		}
		for _, a := range t.Attr {
			label := a.Val
			if a.Key == "content" {
				_, params, _ := mime.ParseMediaType(label)
				label = params["charset"]
			} else if a.Key != "charset" {
				continue
			}
			if strings.HasPrefix(strings.ToLower(label), "utf-16") {
				label = "utf-8"
			}
			if e, name := charset.Lookup(label); e != nil {
				return e, name
			}
		}
	}
	return nil, ""
}

// cut returns the first n bytes at most, and no part of a character.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
