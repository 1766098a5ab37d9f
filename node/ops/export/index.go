package export

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"

	"github.com/apoidea/apoidea/storage/warc"
)

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
	entry warc.Entry
	is    bool
	line  []byte
	look  func(head []byte, body io.Reader) // at a response; may be nil
}

func (k *keepIndex) read(rec *warc.Record) (err error) {
	if k.is = rec.Type == warc.TypeResponse || rec.Type == warc.TypeRevisit; k.is {
		k.entry, err = rec.EntryAnd(k.look)
	}
	return err
}

func (k *keepIndex) keep(_ *warc.Record, raw *spool) error {
	offset := k.e.indexed
	k.e.indexed += raw.len()
	if !k.is {
		return nil
	}
	k.line = k.entry.AppendLine(k.line[:0], k.e.Of, offset, raw.len())
	if bytes.Count(k.line, []byte{'\n'}) != 1 {
		return nil // a URL with a line break would corrupt the index
	}
	k.e.work.records++
	return k.e.work.sorted.add(k.line)
}
