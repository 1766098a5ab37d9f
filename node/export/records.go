package export

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/storage/warc"
)

// keeper takes the records of a file: read sees each as it comes and may read of it, keep is called when it was read to its end and its digests are
// right, with its bytes as they stand in the file.
type keeper interface {
	read(rec *warc.Record) error
	keep(rec *warc.Record, raw *spool) error
}

const (
	// tries is how often a peer that breaks off is asked for a file, and pause the wait before each further try.
	tries = 3
	pause = 2 * time.Second
)

// records reads a file from where it was left to its end, or as far as it is to be had.
func (e *exporter) records(ctx context.Context, s *source, k keeper) error {
	for try := 1; ; try++ {
		err := e.pass(ctx, s, k)
		if err == nil {
			return nil
		}
		if own, ok := errors.AsType[*ownError](err); ok {
			return own.err
		}
		if err := fatal(ctx, err); err != nil {
			return err
		}
		if try == tries || errors.Is(err, warc.ErrFormat) || errors.Is(err, warc.ErrTruncated) {
			e.missing(s.peer, s.file.Name, err)
			return nil
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
	}
}

// ownError is an error of our own disk, not of the source.
type ownError struct{ err error }

func (e *ownError) Error() string { return e.err.Error() }

func own(err error) error {
	if err == nil {
		return nil
	}
	return &ownError{err}
}

// wait sleeps unless ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pass reads once through what is left of a file.
func (e *exporter) pass(ctx context.Context, s *source, k keeper) error {
	begin := e.work.journal.place(s).Offset
	stream := open(ctx, e.src, s.peer, s.file.Name, begin)
	defer func() { _ = stream.Close() }()
	raw := &spool{dir: e.work.dir}
	defer raw.close()
	records := warc.NewReader(stream, true)
	records.Tee(raw)
	for {
		if err := raw.reset(); err != nil {
			return own(err)
		}
		rec, err := records.Next()
		if err == nil {
			if err = k.read(rec); err == nil {
				err = rec.Skip()
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			p := e.work.journal.place(s)
			p.End = !s.file.Open
			e.work.journal.setPlace(s, p)
			return nil
		case errors.Is(err, warc.ErrTruncated) && s.file.Open:
			return nil // what is being written
		case errors.Is(err, warc.ErrDigest) && rec != nil:
			d := Damage{Peer: s.peer, File: s.file.Name, Offset: begin + rec.Offset, Error: err.Error()}
			e.work.journal.Damaged = append(e.work.journal.Damaged, d)
			_, _ = records.Next() // says the same again, once
		case err != nil:
			return err
		default:
			if err := k.keep(rec, raw); err != nil {
				return own(fmt.Errorf("export: %w", err))
			}
		}
		p := e.work.journal.place(s)
		p.Offset = begin + rec.Offset + rec.Length
		e.work.journal.setPlace(s, p)
		e.done.BytesRead += rec.Length
		if err := e.work.due(rec.Length); err != nil {
			return own(err)
		}
		e.tell("reading")
	}
}

// stream is a file that comes from a peer.
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

// Close ends the reading and waits for it.
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
	k.e.work.journal.Records++
	return raw.copyTo(k.e.work.out)
}

// urls reads the fates of a peer's URLs.
func (e *exporter) urls(ctx context.Context, peer string) error {
	at := e.work.journal.Listed[peer]
	enc := json.NewEncoder(e.work.out)
	enc.SetEscapeHTML(false)
	failed := 0
	for !at.End {
		page, err := e.src.URLs(ctx, peer, at.After)
		if err := fatal(ctx, err); err != nil {
			return err
		}
		if err != nil {
			if failed++; failed == tries {
				e.missing(peer, "", fmt.Errorf("URLs: %w", err))
				return nil
			}
			if err := wait(ctx, pause); err != nil {
				return err
			}
			continue
		}
		for i := range page.URLs {
			if err := enc.Encode(&page.URLs[i]); err != nil {
				return fmt.Errorf("export: %w", err)
			}
			e.work.journal.Records++
		}
		at = listed{After: page.After, End: page.After == ""}
		e.work.journal.Listed[peer] = at
		if err := e.work.due(0); err != nil {
			return err
		}
		e.tell("reading")
	}
	return nil
}
