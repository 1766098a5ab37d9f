package export

import (
	"bufio"
	"context"
	"errors"
)

// kind is how an export is made: of each file of an archive what is to be kept is read, and where
// the output is not written meanwhile it is assembled from that in the end.
type kind struct {
	file     func(ctx context.Context, e *exporter, s *source) error
	assemble func(ctx context.Context, e *exporter, w *bufio.Writer) error // nil: it is written as it is read
}

// kinds are the exports that there are. URLs are not read from archives.
var kinds = map[string]kind{
	URLs: {},
	WARC: {file: func(ctx context.Context, e *exporter, s *source) error { return e.records(ctx, s, keepRecord{e}) }},
	CDXJ: {
		file: func(ctx context.Context, e *exporter, s *source) error {
			return e.records(ctx, s, &keepIndex{e: e, s: s})
		},
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error {
			return e.work.sorted.merge(ctx, func(line []byte) error {
				_, err := w.Write(line)
				return err
			})
		},
	},
	Links: {
		file:     func(ctx context.Context, e *exporter, s *source) error { return e.records(ctx, s, &keepLinks{e: e}) },
		assemble: func(ctx context.Context, e *exporter, w *bufio.Writer) error { return e.writeCounted(ctx, w) },
	},
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
