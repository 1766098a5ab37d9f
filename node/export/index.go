package export

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"github.com/apoidea/apoidea/storage/warc"
)

// index gathers the index lines of a file: from the index that lies beside a finished one, else from its records.
func (e *exporter) index(ctx context.Context, s *source) error {
	p := e.work.journal.place(s)
	if !s.file.Open && (p.Offset == 0 || p.Index) {
		err := e.indexFile(ctx, s)
		if err == nil {
			return nil
		}
		if own, ok := errors.AsType[*ownError](err); ok {
			return own.err
		}
		if err := fatal(ctx, err); err != nil {
			return err
		}
		if p = e.work.journal.place(s); p.Offset > 0 { // lines of it were taken already: its records would give them again
			e.missing(s.peer, s.file.Name, err)
			return nil
		}
	}
	return e.records(ctx, s, &keepIndex{e: e, s: s})
}

// indexOf is the name of the index beside a file.
func indexOf(name string) string {
	return strings.TrimSuffix(strings.TrimSuffix(name, ".gz"), ".warc") + ".cdxj"
}

// indexFile takes the lines of the index beside a file.
func (e *exporter) indexFile(ctx context.Context, s *source) error {
	begin := e.work.journal.place(s).Offset
	stream := open(ctx, e.src, s.peer, indexOf(s.file.Name), begin)
	defer func() { _ = stream.Close() }()
	r := bufio.NewReaderSize(stream, 64<<10)
	var line []byte
	for {
		var err error
		line, err = readLine(r, line[:0])
		p := e.work.journal.place(s)
		if errors.Is(err, io.EOF) {
			if p.Offset == 0 {
				return io.ErrUnexpectedEOF // an index has lines: this one is not there
			}
			p.End = true
			e.work.journal.setPlace(s, p)
			return nil
		}
		if err != nil {
			return err
		}
		if err := e.work.sorted.add(line); err != nil {
			return own(err)
		}
		p.Offset, p.Index = p.Offset+int64(len(line)), true
		e.work.journal.setPlace(s, p)
		e.work.journal.Records++
		e.done.BytesRead += int64(len(line))
		if err := e.work.due(int64(len(line))); err != nil {
			return own(err)
		}
		e.tell("reading")
	}
}

// keepIndex makes index lines of records.
type keepIndex struct {
	e     *exporter
	s     *source
	entry warc.Entry
	is    bool
	line  []byte
}

func (k *keepIndex) read(rec *warc.Record) (err error) {
	if k.is = rec.Type == warc.TypeResponse || rec.Type == warc.TypeRevisit; k.is {
		k.entry, err = rec.Entry()
	}
	return err
}

func (k *keepIndex) keep(rec *warc.Record, _ *spool) error {
	if !k.is {
		return nil
	}
	// The place of the last record is where this one begins.
	offset := k.e.work.journal.place(k.s).Offset
	k.line = k.entry.AppendLine(k.line[:0], k.s.file.Name, offset, rec.Length)
	if bytes.Count(k.line, []byte{'\n'}) != 1 {
		return nil // a URL with a line's end in it has no place in an index
	}
	k.e.work.journal.Records++
	return k.e.work.sorted.add(k.line)
}
