package export

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"
	"strings"

	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/node/services/crawling"
	"github.com/apoidea/apoidea/storage/warc"
)

// Link is one line of export links: an edge of the web graph.
type Link struct {
	From string `json:"from"` // page, canonical
	To   string `json:"to"`   // target URL, canonical
	// Kind is link, or redirect if the server redirects From to To.
	Kind string `json:"kind"`
}

// The kinds of Link.
const (
	kindLink     = "link"
	kindRedirect = "redirect"
)

// keepLinks writes the links of metadata records and the redirects of responses.
type keepLinks struct {
	e     *exporter
	links []Link
	lines *bufio.Reader
	sink  func(Link) error // nil: CSV or JSON
}

// outlinkField is the prefix of links in a metadata record.
const outlinkField = "outlink: "

func (k *keepLinks) read(rec *warc.Record) error {
	k.links = k.links[:0]
	switch rec.Type {
	case warc.TypeResponse, warc.TypeRevisit:
		head, err := rec.HTTPHead()
		if err != nil {
			return err
		}
		if _, _, target := crawling.ParseHead(rec.TargetURI, head); target != "" {
			k.links = append(k.links, Link{From: rec.TargetURI, To: target, Kind: kindRedirect})
		}
		return nil
	case warc.TypeMetadata:
	default:
		return nil
	}
	if k.lines == nil {
		k.lines = bufio.NewReaderSize(nil, 64<<10)
	}
	k.lines.Reset(rec)
	var line []byte
	for {
		var err error
		line, err = readLine(k.lines, line[:0])
		if errors.Is(err, extsort.ErrLongLine) {
			return nil // longer than any link of apoidea
		}
		if target, ok := bytes.CutPrefix(line, []byte(outlinkField)); ok && err == nil {
			k.links = append(k.links, Link{From: rec.TargetURI, To: string(bytes.TrimSpace(target)), Kind: kindLink})
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// readLine appends a line with its newline to dst. It ignores a last line without a newline.
func readLine(r *bufio.Reader, dst []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		dst = append(dst, part...)
		switch {
		case err == nil:
			return dst, nil
		case len(dst) > extsort.MaxLine:
			return nil, extsort.ErrLongLine
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

func (k *keepLinks) keep(*warc.Record, *spool) error {
	if k.sink != nil {
		for _, l := range k.links {
			if err := k.sink(l); err != nil {
				return err
			}
		}
		return nil
	}
	k.e.work.records += int64(len(k.links))
	return k.e.writeLinks(k.e.work.out, k.links...)
}

// writeLinks writes links as CSV or as JSON lines. The CSV writer uses out as its buffer.
func (e *exporter) writeLinks(out *bufio.Writer, links ...Link) error {
	w, enc := csv.NewWriter(out), json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for i := range links {
		l := &links[i]
		var err error
		if e.JSON {
			err = enc.Encode(l)
		} else {
			err = w.Write([]string{l.From, l.To, l.Kind})
		}
		if err != nil {
			return err
		}
	}
	return w.Error()
}

// DefaultOf is the default name of the WARC file in the lines of an index.
const DefaultOf = "crawl.warc.gz"

// OfOutput returns the name of the WARC file next to an index: the same with the suffix of an
// archive.
func OfOutput(output string) string {
	base, ok := strings.CutSuffix(filepath.Base(output), ".cdxj")
	if !ok || base == "" {
		return DefaultOf
	}
	return base + ".warc.gz"
}

// keepIndex writes index lines of records with their offsets in the output of export warc.
type keepIndex struct {
	e     *exporter
	s     *source
	index warc.Indexer
	entry *warc.Entry                       // of a response or revisit
	look  func(head []byte, body io.Reader) // at a response; may be nil
}

func (k *keepIndex) read(rec *warc.Record) (err error) {
	k.entry, err = k.index.Read(rec, k.look)
	return err
}

func (k *keepIndex) keep(_ *warc.Record, raw *spool) error {
	offset := k.e.indexed
	k.e.indexed += raw.len()
	if k.entry == nil {
		return nil
	}
	k.e.work.records++
	return k.add(k.e.Of, offset, raw.len())
}

// add adds the entry of a record at an offset of a file.
func (k *keepIndex) add(file string, offset, length int64) error {
	k.index.Add(k.entry, file, offset, length)
	return k.e.work.lines.Add(k.index.Complete())
}

// flush adds the line of the last exchange.
func (k *keepIndex) flush() error { return k.e.work.lines.Add(k.index.Lines()) }
