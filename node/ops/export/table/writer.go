package table

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

const (
	// groupRows limits the rows of a row group, partRows those of a file.
	groupRows = 128 << 10
	partRows  = 4 << 20
	// bloomBits are the bits of a bloom filter for each row: about 1 % of false positives.
	bloomBits = 10
	// chunk is the number of rows written together.
	chunk = 1024
)

// Writer writes rows of one type, which come in their order, to files below a directory, each row
// in that of its partition. It is not safe for concurrent use.
type Writer[T any] struct {
	dir    string
	sorted string // column of the order; empty: none
	part   string // partition of the open file
	number int    // of the open file in its partition
	file   *os.File
	out    *parquet.GenericWriter[T]
	rows   []T
	inPart int
	// partRows is the most rows of a file.
	partRows int
	// Files, Rows and Bytes written so far.
	Files int
	Rows  int64
	Bytes int64
}

// NewWriter returns a writer of rows sorted by a column; it gets a bloom filter.
func NewWriter[T any](dir, sorted string) *Writer[T] {
	return &Writer[T]{dir: dir, sorted: sorted, rows: make([]T, 0, chunk), partRows: partRows}
}

// Write writes a row to a partition, a path such as subset=warc. All rows of a partition come
// together.
func (w *Writer[T]) Write(partition string, row *T) error {
	if w.out != nil && (partition != w.part || w.inPart == w.partRows) {
		if partition != w.part {
			w.number = -1
		}
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.out == nil {
		w.part = partition
		if err := w.begin(); err != nil {
			return err
		}
	}
	w.rows = append(w.rows, *row)
	w.inPart++
	w.Rows++
	if len(w.rows) < chunk {
		return nil
	}
	return w.flush()
}

func (w *Writer[T]) flush() error {
	_, err := w.out.Write(w.rows)
	clear(w.rows)
	w.rows = w.rows[:0]
	return err
}

func (w *Writer[T]) begin() (err error) {
	dir := filepath.Join(w.dir, filepath.FromSlash(w.part))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if w.file, err = os.Create(filepath.Join(dir, fmt.Sprintf("part-%05d.parquet", w.number))); err != nil {
		return err
	}
	options := []parquet.WriterOption{
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1}), parquet.MaxRowsPerRowGroup(groupRows), parquet.CreatedBy("apoidea", "", ""),
	}
	if w.sorted != "" {
		options = append(options, parquet.BloomFilters(parquet.SplitBlockFilter(bloomBits, w.sorted)),
			parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending(w.sorted))))
	}
	w.out = parquet.NewGenericWriter[T](w.file, options...)
	w.inPart = 0
	return nil
}

// finish completes the open file.
func (w *Writer[T]) finish() error {
	if w.out == nil {
		return nil
	}
	err := errors.Join(w.flush(), w.out.Close())
	if info, serr := w.file.Stat(); serr == nil {
		w.Bytes += info.Size()
	}
	err = errors.Join(err, w.file.Sync(), w.file.Close())
	w.out, w.file = nil, nil
	w.Files++
	w.number++
	return err
}

// Close completes the last file.
func (w *Writer[T]) Close() error { return w.finish() }
