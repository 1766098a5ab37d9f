package export

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/storage/warc"
)

// keeper processes the records of a file. read receives each record and may read from it. keep is
// called after a record is completely read and its digests are verified; raw are its bytes in the
// file.
type keeper interface {
	read(rec *warc.Record) error
	keep(rec *warc.Record, raw *spool) error
}

const (
	// tries is the number of requests for a file after disconnects, and pause the wait between them.
	tries = 3
	pause = 2 * time.Second
)

// records reads a file from its last position to its end, or as far as it is available.
func (e *exporter) records(ctx context.Context, s *source, k keeper) error {
	sel := &selection{e: e, s: s}
	for try := 1; ; try++ {
		bad, err := e.pass(ctx, s, sel, k)
		if warc.IsDamage(err) {
			if more, perr := e.passDamage(ctx, s, bad, err); perr != nil {
				err = perr
			} else if !more {
				return nil
			} else {
				try = 0
				continue
			}
		}
		if err == nil {
			return nil
		}
		if own, ok := errors.AsType[*ownError](err); ok {
			return own.err
		}
		if err := fatal(ctx, err); err != nil {
			return err
		}
		if try == tries {
			e.missing(s.peer, s.file.Name, err)
			return nil
		}
		if err := loop.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// passDamage skips the unreadable record at an offset and reports what is lost; more is false at
// the end of the file.
func (e *exporter) passDamage(ctx context.Context, s *source, bad int64, cause error) (more bool, err error) {
	lines, known := e.indexLines(ctx, s)
	from := func(offset int64) (io.ReadCloser, error) { return open(ctx, e.src, s.peer, s.file.Name, offset), nil }
	next, err := warc.Resume(from, s.file.Name, bad+1, known)
	more = err == nil
	switch {
	case more:
	case !errors.Is(err, io.EOF):
		return false, err
	case s.file.Open && errors.Is(cause, warc.ErrTruncated):
		return false, nil // record being written
	}
	d := Damage{Peer: s.peer, File: s.file.Name, Offset: bad, Error: cause.Error()}
	if more {
		d.Bytes = next - bad
	}
	concerned := true
	if !e.all {
		lines, concerned = e.concerns(&d, lines)
	}
	if d.name(lines); concerned || known == nil || s.file.Open {
		e.work.damaged = append(e.work.damaged, d)
	}
	s.offset = next
	return more, nil
}

// indexLines returns the lines of the index of a file, if any, and its record offsets if it is
// valid.
func (e *exporter) indexLines(ctx context.Context, s *source) (lines []warc.IndexLine, known []warc.Extent) {
	in := open(ctx, e.src, s.peer, warc.IndexName(s.file.Name), 0)
	defer func() { _ = in.Close() }()
	lines, err := warc.ParseIndex(in)
	if err != nil {
		return lines, nil
	}
	return lines, warc.Extents(lines)
}

// index calls each for the lines of a file's index. If that is missing or damaged, it reads the
// file for the others.
func (e *exporter) index(ctx context.Context, s *source, each func(*warc.IndexLine) error) error {
	name, there := warc.IndexName(s.file.Name), make(map[int64]bool)
	moved := strings.HasSuffix(s.file.Name, warc.MovedIndex) // of a file elsewhere
	if moved {
		name = s.file.Name
	}
	in := open(ctx, e.src, s.peer, name, 0)
	err := warc.ScanIndex(in, func(l *warc.IndexLine) error {
		there[l.Offset] = true
		return own(each(l))
	})
	_ = in.Close()
	if own, ok := errors.AsType[*ownError](err); ok {
		return own.err
	}
	if moved {
		return fatal(ctx, err)
	}
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	k := &keepLines{}
	err = e.records(ctx, s, k)
	return errors.Join(err, warc.ScanIndex(bytes.NewReader(k.index.Lines()), func(l *warc.IndexLine) error {
		if there[l.Offset] {
			return nil
		}
		return each(l)
	}))
}

// keepLines indexes the records of a file.
type keepLines struct {
	index warc.Indexer
	entry *warc.Entry
}

func (k *keepLines) read(rec *warc.Record) (err error) {
	k.entry, err = k.index.Read(rec, nil)
	return err
}

func (k *keepLines) keep(rec *warc.Record, _ *spool) error {
	if k.entry != nil {
		k.index.Add(k.entry, "", rec.Offset, rec.Length)
	}
	return nil
}

// ownError is an error of the local disk, not of the source.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }

func own(err error) error {
	if err == nil {
		return nil
	}
	return &ownError{err}
}

// pass reads the rest of a file, or up to an unreadable record, whose offset it returns.
func (e *exporter) pass(ctx context.Context, s *source, sel *selection, k keeper) (bad int64, err error) {
	stream := open(ctx, e.src, s.peer, s.file.Name, s.offset)
	defer func() { _ = stream.Close() }()
	raw := &spool{dir: e.work.dir}
	defer raw.close()
	records := warc.NewReaderAt(stream, true, s.offset)
	as, anew := e.packing(s)
	if anew {
		records.TeePlain(raw)
	} else {
		records.Tee(raw)
	}
	packed := &spool{dir: e.work.dir}
	defer packed.close()
	packer := warc.NewEncoder(as)
	for {
		if err := cmp.Or(ctx.Err(), raw.reset()); err != nil {
			return 0, own(err)
		}
		keep := false
		rec, err := records.Next()
		if err == nil {
			keep, err = sel.keeps(ctx, rec)
		}
		if err == nil {
			if keep {
				err = k.read(rec)
			}
			if err == nil {
				err = rec.Skip()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return 0, nil
		case errors.Is(err, warc.ErrDigest) && rec != nil && rec.Length > 0:
			if keep {
				e.damaged(s, rec, err)
			}
			_, _ = records.Next() // returns the same error once more
		case err != nil:
			return s.offset, err
		default:
			if keep {
				if err := e.kept(rec, k, raw, packed, packer, anew); err != nil {
					return 0, own(fmt.Errorf("export: %w", err))
				}
			}
			if rec.Type == warc.TypeResponse || rec.Type == warc.TypeRevisit {
				if err := e.work.expect.Add([]byte(rec.ID + markRead)); err != nil {
					return 0, own(err)
				}
			}
		}
		s.offset = rec.Offset + rec.Length
		e.done.BytesRead += rec.Length
		e.reportProgress("reading")
	}
}

// kept passes on a record that the filter selects, recompressed if anew.
func (e *exporter) kept(rec *warc.Record, k keeper, raw, packed *spool, packer *warc.Encoder, anew bool) error {
	if rec.Type != warc.TypeWarcinfo {
		e.matched++
	}
	if !anew {
		return k.keep(rec, raw)
	}
	if err := errors.Join(packed.reset(), packer.Pack(packed, raw.len(), raw.copyTo)); err != nil {
		return err
	}
	return k.keep(rec, packed)
}

// packing returns the compression of records in the output, by its name, and whether they must be
// recompressed. A WACZ has gzip members, because replay tools do not read Zstandard.
func (e *exporter) packing(s *source) (as warc.Compression, anew bool) {
	name := e.Output
	switch e.What {
	case WACZ:
		name = s.copied
	case CDXJ:
		name = e.Of
	}
	_, as, ok := warc.CutName(name)
	if !ok {
		as = warc.Gzip
	}
	_, stored, _ := warc.CutName(s.file.Name)
	return as, as != stored && slices.Contains([]string{WARC, CDXJ, WACZ}, e.What)
}

// damaged records a complete record with a wrong digest.
func (e *exporter) damaged(s *source, rec *warc.Record, err error) {
	d := Damage{Peer: s.peer, File: s.file.Name, Offset: rec.Offset, Bytes: rec.Length, Error: err.Error()}
	if rec.TargetURI != "" {
		d.URLs, d.Lost = []string{rec.TargetURI}, 1
	}
	e.work.damaged = append(e.work.damaged, d)
}

// stream is a file read from a peer.
type stream struct {
	*io.PipeReader
	cancel context.CancelFunc
	ended  chan struct{}
}

func open(ctx context.Context, src control.Results, peer, name string, offset int64) *stream {
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	s := &stream{PipeReader: r, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		w.CloseWithError(src.ReadArchive(ctx, peer, name, offset, w))
	}()
	return s
}

// Close stops the reader and waits for it.
func (s *stream) Close() error {
	s.cancel()
	err := s.PipeReader.Close()
	<-s.ended
	return err
}

// keepRecord writes every record.
type keepRecord struct{ e *exporter }

func (keepRecord) read(*warc.Record) error { return nil }

func (k keepRecord) keep(_ *warc.Record, raw *spool) error {
	k.e.work.records++
	return raw.copyTo(k.e.work.out)
}

// urls reads the outcomes of a peer's URLs.
func (e *exporter) urls(ctx context.Context, peer string) error {
	enc := json.NewEncoder(e.work.out)
	enc.SetEscapeHTML(false)
	write := func(l *control.URLLine) error { return enc.Encode(l) }
	if e.log != nil {
		write = e.log.add
	}
	for after, failed := "", 0; ; {
		page, err := e.src.URLs(ctx, peer, after)
		if err := fatal(ctx, err); err != nil {
			return err
		}
		if err != nil {
			if failed++; failed == tries {
				e.missing(peer, "", fmt.Errorf("URLs: %w", err))
				return nil
			}
			if err := loop.Sleep(ctx, pause); err != nil {
				return err
			}
			continue
		}
		for i := range page.URLs {
			if s := SubjectOfURL(&page.URLs[i]); !e.Filter.Match(&s) {
				continue
			}
			if err := write(&page.URLs[i]); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			e.matched++
			e.work.records++
		}
		e.reportProgress("reading")
		if after = page.After; after == "" {
			return nil
		}
	}
}
