package export

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

const (
	// runBytes limits the lines sorted in memory.
	runBytes = 32 << 20
	// lineOverhead is the approximate memory of a line besides its bytes.
	lineOverhead = 24
	// fanIn is the number of runs merged at once: each needs an open file and a buffer.
	fanIn = 64
	// maxLine limits a line read back.
	maxLine = 1 << 20
)

var errLongLine = fmt.Errorf("line of more than %d bytes", maxLine)

// sorter is an external merge sort of lines with limited memory. Lines end in a newline and are
// compared as bytes.
type sorter struct {
	dir   string
	kind  string   // prefix of run names
	runs  []string // names, in dir
	lines [][]byte
	size  int
	bound int
	made  int
}

// newSorter continues with existing runs.
func newSorter(dir, kind string, runs []string) *sorter {
	return &sorter{dir: dir, kind: kind, runs: slices.Clone(runs), bound: runBytes, made: len(runs)}
}

// add adds a copy of a line.
func (s *sorter) add(line []byte) error {
	if len(line) > maxLine {
		return errLongLine
	}
	s.lines = append(s.lines, bytes.Clone(line))
	if s.size += len(line) + lineOverhead; s.size < s.bound {
		return nil
	}
	return s.flush()
}

// flush writes the lines in memory to a run and syncs it.
func (s *sorter) flush() error {
	if len(s.lines) == 0 {
		return nil
	}
	slices.SortFunc(s.lines, bytes.Compare)
	next := 0
	name, err := s.write(func() ([]byte, error) {
		if next == len(s.lines) {
			return nil, io.EOF
		}
		next++
		return s.lines[next-1], nil
	})
	if err != nil {
		return err
	}
	s.runs = append(s.runs, name)
	clear(s.lines)
	s.lines, s.size = s.lines[:0], 0
	return nil
}

// write writes a run of the lines that next returns until io.EOF.
func (s *sorter) write(next func() ([]byte, error)) (name string, err error) {
	name = fmt.Sprintf("%s-%06d", s.kind, s.made)
	s.made++
	f, err := os.Create(filepath.Join(s.dir, name))
	if err != nil {
		return "", err
	}
	w := bufio.NewWriterSize(f, bufferSize)
	for {
		line, err := next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			_, err = w.Write(line)
		}
		if err != nil {
			return "", errors.Join(err, f.Close())
		}
	}
	return name, errors.Join(w.Flush(), f.Sync(), f.Close())
}

// merge calls fn for all lines in order. Runs are kept, so that it can be repeated after a failure.
func (s *sorter) merge(ctx context.Context, fn func(line []byte) error) error {
	if err := s.flush(); err != nil {
		return err
	}
	runs := s.runs
	for len(runs) > fanIn {
		m, err := s.open(runs[:fanIn])
		if err != nil {
			return err
		}
		name, err := s.write(func() ([]byte, error) { return m.next(ctx) })
		m.close()
		if err != nil {
			return err
		}
		runs = append(slices.Clone(runs[fanIn:]), name)
	}
	m, err := s.open(runs)
	if err != nil {
		return err
	}
	defer m.close()
	for {
		line, err := m.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = fn(line)
		}
		if err != nil {
			return err
		}
	}
}

// merging merges several runs.
type merging struct {
	heads heads
	last  *head // the run of the last returned line
	n     int
}

func (s *sorter) open(names []string) (*merging, error) {
	m := &merging{}
	for _, name := range names {
		f, err := os.Open(filepath.Join(s.dir, name))
		if err != nil {
			m.close()
			return nil, err
		}
		h := &head{file: f, r: bufio.NewReaderSize(f, 64<<10)}
		m.heads = append(m.heads, h)
		if err := h.next(); err != nil && !errors.Is(err, io.EOF) {
			m.close()
			return nil, err
		}
	}
	heap.Init(&m.heads)
	return m, nil
}

// next returns the smallest remaining line, valid until the next call, or io.EOF.
func (m *merging) next(ctx context.Context) ([]byte, error) {
	if m.n++; m.n%4096 == 0 && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if m.last != nil {
		if err := m.last.next(); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		heap.Fix(&m.heads, 0)
	}
	if len(m.heads) == 0 || m.heads[0].line == nil {
		return nil, io.EOF
	}
	m.last = m.heads[0]
	return m.last.line, nil
}

func (m *merging) close() {
	for _, h := range m.heads {
		h.file.Close()
	}
}

// head is a run with its next line, nil at the end.
type head struct {
	file *os.File
	r    *bufio.Reader
	line []byte
}

func (h *head) next() (err error) {
	h.line, err = readLine(h.r, h.line[:0])
	if err != nil {
		h.line = nil
	}
	return err
}

// readLine appends a line with its newline to dst. It ignores a last line without a newline.
func readLine(r *bufio.Reader, dst []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		dst = append(dst, part...)
		switch {
		case err == nil:
			return dst, nil
		case len(dst) > maxLine:
			return nil, errLongLine
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}

// heads is a heap by next line; finished runs are last.
type heads []*head

func (h heads) Len() int { return len(h) }
func (h heads) Less(i, j int) bool {
	if h[i].line == nil || h[j].line == nil {
		return h[j].line == nil && h[i].line != nil
	}
	return bytes.Compare(h[i].line, h[j].line) < 0
}
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface; it is not used.
func (h *heads) Push(any) {}

// Pop implements heap.Interface; it is not used.
func (h *heads) Pop() any { return nil }
