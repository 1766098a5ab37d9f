package export

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"strconv"

	"github.com/apoidea/apoidea/storage/warc"
)

// keepLinks writes page and outlink of metadata records: as CSV, or to be counted.
type keepLinks struct {
	e     *exporter
	from  string
	to    []string
	lines *bufio.Reader
}

// outlinkField begins the lines of a metadata record that name a link.
const outlinkField = "outlink: "

func (k *keepLinks) read(rec *warc.Record) error {
	k.to = k.to[:0]
	if rec.Type != warc.TypeMetadata {
		return nil
	}
	k.from = rec.TargetURI
	if k.lines == nil {
		k.lines = bufio.NewReaderSize(nil, 64<<10)
	}
	k.lines.Reset(rec)
	var line []byte
	for {
		var err error
		line, err = readLine(k.lines, line[:0])
		if errors.Is(err, errLongLine) {
			return nil // no link of ours is that long
		}
		if target, ok := bytes.CutPrefix(line, []byte(outlinkField)); ok && err == nil {
			k.to = append(k.to, string(bytes.TrimSpace(target)))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (k *keepLinks) keep(*warc.Record, *spool) error {
	if k.e.Count {
		return k.gather()
	}
	w := csv.NewWriter(k.e.work.out)
	for _, to := range k.to {
		if err := w.Write([]string{k.from, to}); err != nil {
			return err
		}
		k.e.work.journal.Records++
	}
	w.Flush()
	return w.Error()
}

// gather sorts the pairs. One with a control character is no pair of URLs and would break a line in
// two.
func (k *keepLinks) gather() error {
	var line []byte
	for _, to := range k.to {
		line = append(append(append(append(line[:0], k.from...), '\t'), to...), '\n')
		if bytes.ContainsFunc(line[:len(line)-1], func(r rune) bool { return r < ' ' && r != '\t' }) || bytes.Count(line, []byte{'\t'}) != 1 {
			continue
		}
		if err := k.e.work.sorted.add(line); err != nil {
			return err
		}
	}
	return nil
}

// writeCounted writes each pair once, with how often it was met.
func (e *exporter) writeCounted(ctx context.Context, out io.Writer) error {
	w := csv.NewWriter(out)
	if err := w.Write([]string{"from", "to", "count"}); err != nil {
		return err
	}
	var last []byte
	n := 0
	tell := func() error {
		if n == 0 {
			return nil
		}
		from, to, _ := bytes.Cut(last[:len(last)-1], []byte{'\t'})
		e.work.journal.Records++
		return w.Write([]string{string(from), string(to), strconv.Itoa(n)})
	}
	err := e.work.sorted.merge(ctx, func(line []byte) error {
		if n > 0 && bytes.Equal(line, last) {
			n++
			return nil
		}
		err := tell()
		last, n = append(last[:0], line...), 1
		return err
	})
	if err == nil {
		err = tell()
	}
	w.Flush()
	return errors.Join(err, w.Error())
}
