package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/apoidea/apoidea/crawl/extract"
	"github.com/apoidea/apoidea/node/ops/export/text"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/storage/warc"
)

// Text is a line of export text. Unknown fields are left out.
type Text struct {
	URL   string    `json:"url"`
	Time  time.Time `json:"time"` // of the request
	Title string    `json:"title,omitempty"`
	// Language is a code of ISO 639-1, or of ISO 639-3 for a language without one there.
	Language   string  `json:"language,omitempty"`
	Confidence float64 `json:"language_confidence,omitempty"` // 0 to 1
	Text       string  `json:"text"`
	Main       string  `json:"main_text,omitempty"` // without navigation and the like
	// Truncated is why the text is incomplete: as in the WARC record, or length for one of more than
	// 4 MiB.
	Truncated string `json:"truncated,omitempty"`
	Digest    string `json:"digest,omitempty"`  // of the body, as sha256: and hex
	SimHash   string `json:"simhash,omitempty"` // of the words of Text: 16 hex digits
	Record    string `json:"record"`            // ID of the response
	Job       string `json:"job,omitempty"`     // ID
}

// Skipped is a page whose text, or main text, could not be extracted.
type Skipped struct {
	URL   string `json:"url"`
	Error string `json:"error"`
}

const (
	maxSkipped  = 1000     // in a report
	maxTextBody = 32 << 20 // bytes of a body; longer than the default of --max-body
	// waitingBodies limits the bytes of bodies whose text is being extracted.
	waitingBodies = 64 << 20
)

// textPage is a response whose text is being extracted.
type textPage struct {
	Text
	contentType string
	body        []byte
	job         string        // of the metadata record, which comes after the response
	done        chan struct{} // closed when the fields below are set
	out         []byte        // line or record; empty if the page failed
	err         error
}

// keepText writes the text of pages in the order of their records. Goroutines extract it; flush
// waits for them.
type keepText struct {
	e       *exporter
	pages   sync.Pool     // of *text.Extractor
	packer  *warc.Encoder // of WET; nil for lines of JSON
	slots   chan struct{}
	current *textPage // of the record that is read
	job     string    // of the metadata record that is read
	queue   []*textPage
	waiting int // bytes of bodies in queue
}

func newKeepText(e *exporter) *keepText {
	k := &keepText{e: e, slots: make(chan struct{}, runtime.GOMAXPROCS(0))}
	k.pages.New = func() any { return new(text.Extractor) }
	if e.What == WET {
		k.packer = warc.NewEncoder(wetPacking(e.Output))
	}
	return k
}

// wetPacking returns the compression of a WET file by its name, such as crawl.warc.wet.gz.
func wetPacking(name string) warc.Compression {
	if _, as, ok := warc.CutName(strings.Replace(name, ".warc.wet", ".warc", 1)); ok {
		return as
	}
	return warc.Gzip
}

func (k *keepText) read(rec *warc.Record) error {
	k.current, k.job = nil, ""
	if rec.Type == warc.TypeMetadata {
		p, err := rec.Provenance()
		k.job = p.Job
		return err
	}
	if rec.Type != warc.TypeResponse {
		return nil
	}
	head, err := rec.HTTPHead()
	if err != nil {
		return err
	}
	status, header, _ := crawling.ParseHead(rec.TargetURI, head)
	if status/100 != 2 {
		return nil
	}
	contentType := extract.ContentType(http.Header(header))
	switch extract.MediaType(contentType) {
	case "", "text/html", "text/plain", "application/xhtml+xml", "*/*", "unknown/unknown", "application/unknown":
	default:
		return nil // without reading the body into memory
	}
	body, err := io.ReadAll(io.LimitReader(rec, maxTextBody+1))
	if err != nil || !text.IsText(contentType, body) {
		return err
	}
	p := &textPage{contentType: contentType, body: body[:min(len(body), maxTextBody)], done: make(chan struct{})}
	p.URL, p.Time, p.Record, p.Digest, p.Truncated = rec.TargetURI, rec.Date, rec.ID, rec.Get("WARC-Payload-Digest"), rec.Get("WARC-Truncated")
	if len(body) > maxTextBody {
		p.Truncated = warc.TruncatedLength
	}
	k.current = p
	return nil
}

func (k *keepText) keep(rec *warc.Record, _ *spool) error {
	switch p := k.current; {
	case rec.Type == warc.TypeRevisit:
		k.e.report.Revisits++
	case p != nil:
		k.queue, k.waiting = append(k.queue, p), k.waiting+len(p.body)
		go k.extract(p)
	case k.job != "" && len(k.queue) > 0:
		if last := k.queue[len(k.queue)-1]; rec.ConcurrentTo() == last.Record {
			last.job = k.job
		}
	}
	// The last page waits for its metadata record.
	for len(k.queue) > 1 && (len(k.queue) > 4*cap(k.slots) || k.waiting > waitingBodies) {
		if err := k.write(); err != nil {
			return err
		}
	}
	return nil
}

// extract sets the results of a page.
func (k *keepText) extract(p *textPage) {
	k.slots <- struct{}{}
	defer func() { <-k.slots; close(p.done) }()
	x := k.pages.Get().(*text.Extractor)
	defer k.pages.Put(x)
	page, err := x.Page(p.contentType, p.body, k.packer == nil && !k.e.NoMainText)
	if p.err = err; page == nil {
		return
	}
	if page.Cut {
		p.Truncated = warc.TruncatedLength
	}
	if k.packer != nil {
		c := warc.Conversion{URL: p.URL, Date: p.Time, RefersTo: p.Record, Text: []byte(page.Text)}
		if page.Title != "" {
			c.Text = []byte(page.Title + "\n" + page.Text) // as Common Crawl
		}
		if page.Language.Reliable {
			c.Language = page.Language.Code3
		}
		p.out = k.packer.Conversion(nil, &c)
		return
	}
	line := p.Text
	line.Title, line.Language, line.Confidence, line.Text, line.Main = page.Title, page.Language.Code, page.Language.Confidence, page.Text, page.Main
	if page.Text != "" {
		line.SimHash = fmt.Sprintf("%016x", page.SimHash)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	p.err = cmp.Or(enc.Encode(&line), p.err)
	p.out = b.Bytes()
}

// write writes the first page of the queue.
func (k *keepText) write() error {
	p, w := k.queue[0], k.e.work
	<-p.done
	k.queue, k.waiting = k.queue[1:], k.waiting-len(p.body)
	if r := k.e.report; p.err != nil {
		if r.SkippedTotal++; len(r.Skipped) < maxSkipped {
			r.Skipped = append(r.Skipped, Skipped{p.URL, p.err.Error()})
		}
	}
	if len(p.out) == 0 {
		return nil
	}
	if k.packer != nil && w.records == 0 {
		if err := k.e.warcinfo(); err != nil {
			return err
		}
	}
	w.records++
	if p.job != "" && k.packer == nil {
		job, err := json.Marshal(p.job)
		if err != nil {
			return err
		}
		p.out = append(append(append(p.out[:len(p.out)-len("}\n")], `,"job":`...), job...), "}\n"...)
	}
	_, err := w.out.Write(p.out)
	return err
}

// flush writes all pages.
func (k *keepText) flush() (err error) {
	for len(k.queue) > 0 {
		err = cmp.Or(err, k.write())
	}
	return err
}

// warcinfo writes the first record of a WET file.
func (e *exporter) warcinfo() error {
	name := ""
	if e.Output != "" {
		name = filepath.Base(e.Output)
	}
	_, err := e.work.out.Write(warc.Warcinfo(warc.Config{Compression: wetPacking(name), Software: e.Software}, name, e.began))
	return err
}

// textFile reads a file for the kinds of text.
func textFile(ctx context.Context, e *exporter, s *source) error {
	k := newKeepText(e)
	return cmp.Or(e.records(ctx, s, k), k.flush())
}
