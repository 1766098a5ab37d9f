package text

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

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
	doc := extract.Decode(contentType, body)
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

const (
	mainTimeout = 10 * time.Second
	// maxStuck limits the goroutines that continue after mainTimeout: no library call can be stopped.
	maxStuck = 4
	// Limits of the input of the library; a page of 4 MiB takes half a second.
	maxMarkup = 4 << 20
	maxTags   = 100_000
)

var stuck atomic.Int64

// main returns the main text of the markup.
func (x *Extractor) main() (string, error) {
	if len(x.markup) > maxMarkup || x.tags > maxTags {
		return "", fmt.Errorf("main text: page exceeds %d bytes or %d tags", maxMarkup, maxTags)
	}
	markup := x.markup
	text, err := within(mainTimeout, func() (string, error) { return mainText(markup) })
	if err != nil {
		x.markup = nil // may be in use
	}
	return text, err
}

// within calls f and returns its result, or an error if it panics or takes longer than the limit.
func within(limit time.Duration, f func() (string, error)) (string, error) {
	if stuck.Load() >= maxStuck {
		return "", errors.New("main text: too many slow pages at once")
	}
	done := make(chan struct{})
	var text string
	var err error
	go func() {
		defer close(done)
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("main text: %v", p)
			}
		}()
		text, err = f()
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return text, err
	case <-timer.C:
		stuck.Add(1)
		go func() { <-done; stuck.Add(-1) }()
		return "", fmt.Errorf("main text: takes more than %s", limit)
	}
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
