package export

import (
	"bufio"
	"context"
	"errors"
)

// kind describes one kind of export: what it reads from each archive file, and how the output is
// assembled at the end, if it is not written during reading.
type kind struct {
	file     func(ctx context.Context, e *exporter, s *source) error
	assemble func(ctx context.Context, e *exporter, w *bufio.Writer) error // nil: written during reading
}

// kinds are all kinds of export. URLs are not read from archives.
var kinds = map[string]kind{
	URLs: {},
	WARC: {file: func(ctx context.Context, e *exporter, s *source) error { return e.records(ctx, s, keepRecord{e}) }},
	CDXJ: {
		file: func(ctx context.Context, e *exporter, s *source) error {
			return e.records(ctx, s, &keepIndex{e: e, s: s})
		},
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error {
			return e.writeSorted(ctx, w)
		},
	},
	Links: {file: func(ctx context.Context, e *exporter, s *source) error { return e.records(ctx, s, &keepLinks{e: e}) }},
	WACZ: {
		file: func(ctx context.Context, e *exporter, s *source) error {
			k, err := e.copyInto(s)
			if err != nil {
				return err
			}
			return errors.Join(e.records(ctx, s, k), k.close())
		},
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error { return e.pack(ctx, w) },
	},
}
