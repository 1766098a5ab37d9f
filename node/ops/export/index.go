package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
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

// ofFile indexes a local file, such as the output of export warc.
type ofFile struct {
	path   string
	file   *os.File
	sorted *scratch
	report *Report
}

// IndexFile writes the index of a local WARC file under its own name. The report lists unreadable
// parts.
func IndexFile(ctx context.Context, path string, out io.Writer) (report *Report, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("export cdxj: %w", err)
	}
	dir, err := os.MkdirTemp("", "apoidea-export-*")
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	defer func() { err = errors.Join(err, f.Close(), os.RemoveAll(dir)) }()
	lines, err := openScratch(dir)
	if err != nil {
		return nil, fmt.Errorf("export cdxj: %w", err)
	}
	defer func() { err = errors.Join(err, lines.store.Close()) }()
	o := ofFile{path: path, file: f, sorted: lines, report: &Report{What: CDXJ, Files: 1, Damaged: []Damage{}}}
	if err := warc.Sift(o.from, filepath.Base(path), nil, o.each, o.lost); err != nil {
		return nil, fmt.Errorf("export cdxj: %s: %w", path, err)
	}
	w := bufio.NewWriterSize(out, bufferSize)
	err = o.sorted.sorted(ctx, func(line []byte) error {
		o.report.Bytes += int64(len(line))
		_, err := w.Write(line)
		return err
	})
	o.report.Complete = len(o.report.Damaged) == 0
	return o.report, errors.Join(err, w.Flush())
}

func (o *ofFile) from(offset int64) (io.ReadCloser, error) {
	_, err := o.file.Seek(offset, io.SeekStart)
	return io.NopCloser(o.file), err
}

func (o *ofFile) each(rec *warc.Record) error {
	if rec.Type != warc.TypeResponse && rec.Type != warc.TypeRevisit {
		return rec.Skip()
	}
	entry, err := rec.Entry()
	if err != nil {
		return err
	}
	o.report.Records++
	return o.sorted.add(entry.AppendLine(nil, filepath.Base(o.path), rec.Offset, rec.Length))
}

func (o *ofFile) lost(l warc.Loss) error {
	o.report.Damaged = append(o.report.Damaged, Damage{File: o.path, Offset: l.Offset, Bytes: l.Length, Error: l.Err.Error()})
	return nil
}
