// Package extsort sorts more lines than fit in memory: it sorts parts of limited size, writes each
// to a temporary file, and merges them.
package extsort

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/s2"
)

const (
	// partBytes limits the lines in memory, and mostParts the files of a merge. With both, and a block
	// of each file, a sorter takes about 50 MB.
	partBytes = 16 << 20
	mostParts = 64
	// blockBytes is the size of a compressed block of a file.
	blockBytes = 128 << 10
	// MaxLine limits a line in bytes.
	MaxLine = 1 << 20
)

// ErrLongLine is returned for a line over MaxLine.
var ErrLongLine = fmt.Errorf("line of more than %d bytes", MaxLine)

// Sorter sorts lines as bytes. It is not safe for concurrent use.
type Sorter struct {
	dir   string
	lines []byte
	spans []span // of lines
	parts []*os.File
	most  int // bytes of lines
}

type span struct{ from, to uint32 }

// New returns a sorter with temporary files in dir.
func New(dir string) *Sorter { return &Sorter{dir: dir, most: partBytes} }

// Add adds a line. Equal lines are kept.
func (s *Sorter) Add(line []byte) error {
	if len(line) > MaxLine {
		return ErrLongLine
	}
	if len(s.lines)+len(line) > s.most {
		if err := s.flush(); err != nil {
			return err
		}
	}
	from := len(s.lines)
	s.lines = append(s.lines, line...)
	s.spans = append(s.spans, span{uint32(from), uint32(len(s.lines))}) // at most partBytes
	return nil
}

func (s *Sorter) sort() {
	slices.SortFunc(s.spans, func(a, b span) int { return bytes.Compare(s.lines[a.from:a.to], s.lines[b.from:b.to]) })
}

// flush writes the lines in memory to a file.
func (s *Sorter) flush() error {
	s.sort()
	if len(s.parts) == mostParts {
		merged, err := s.write(func(add func([]byte) error) error { return merge(s.parts, add) })
		if err != nil {
			return err
		}
		if err := s.Close(); err != nil {
			return err
		}
		s.parts = append(s.parts, merged)
	}
	part, err := s.write(func(add func([]byte) error) error {
		for _, at := range s.spans {
			if err := add(s.lines[at.from:at.to]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.parts, s.lines, s.spans = append(s.parts, part), s.lines[:0], s.spans[:0]
	return nil
}

// write creates a file of the lines that each passes to add.
func (s *Sorter) write(each func(add func([]byte) error) error) (part *os.File, err error) {
	part, err = os.CreateTemp(s.dir, "sort-*")
	if err != nil {
		return nil, err
	}
	w := s2.NewWriter(part, s2.WriterConcurrency(1), s2.WriterBlockSize(blockBytes))
	var size []byte
	err = each(func(line []byte) error {
		size = binary.AppendUvarint(size[:0], uint64(len(line)))
		_, err1 := w.Write(size)
		_, err2 := w.Write(line)
		return cmp.Or(err1, err2)
	})
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, errors.Join(err, part.Close(), os.Remove(part.Name()))
	}
	return part, nil
}

// Each calls fn for all lines in order; a line is valid during the call. It may be called again.
func (s *Sorter) Each(ctx context.Context, fn func(line []byte) error) error {
	n := 0
	each := func(line []byte) error {
		if n++; n%4096 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		return fn(line)
	}
	if len(s.parts) > 0 {
		if err := s.flush(); err != nil {
			return err
		}
		s.lines, s.spans = nil, nil
		return merge(s.parts, each)
	}
	s.sort()
	for _, at := range s.spans {
		if err := each(s.lines[at.from:at.to]); err != nil {
			return err
		}
	}
	return nil
}

// Close removes the files.
func (s *Sorter) Close() error {
	var errs []error
	for _, f := range s.parts {
		errs = append(errs, f.Close(), os.Remove(f.Name()))
	}
	s.parts = nil
	return errors.Join(errs...)
}

// input is a file of a merge with its next line.
type input struct {
	r    *bufio.Reader
	line []byte
}

// next reads the next line; ok is false at the end.
func (i *input) next() (ok bool, err error) {
	n, err := binary.ReadUvarint(i.r)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	if err == nil && n > MaxLine {
		err = ErrLongLine
	}
	if err != nil {
		return false, fmt.Errorf("sort: %w", err)
	}
	i.line = slices.Grow(i.line[:0], int(n))[:n]
	if _, err := io.ReadFull(i.r, i.line); err != nil {
		return false, fmt.Errorf("sort: %w", err)
	}
	return true, nil
}

type inputs []*input

func (h inputs) Len() int           { return len(h) }
func (h inputs) Less(a, b int) bool { return bytes.Compare(h[a].line, h[b].line) < 0 }
func (h inputs) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *inputs) Push(any)          {}
func (h *inputs) Pop() any {
	*h = (*h)[:len(*h)-1]
	return nil
}

// merge calls fn for the lines of all files in order.
func merge(parts []*os.File, fn func(line []byte) error) error {
	var h inputs
	for _, f := range parts {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		in := &input{r: bufio.NewReader(s2.NewReader(f, s2.ReaderMaxBlockSize(blockBytes)))}
		ok, err := in.next()
		if err != nil {
			return err
		}
		if ok {
			h = append(h, in)
		}
	}
	heap.Init(&h)
	for len(h) > 0 {
		if err := fn(h[0].line); err != nil {
			return err
		}
		ok, err := h[0].next()
		if err != nil {
			return err
		}
		if ok {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return nil
}
