package export

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/export/extsort"
	"github.com/apoidea/apoidea/storage"
)

// Names in the working directory.
const (
	outName  = "out"
	lockName = "sort"
)

const bufferSize = 256 << 10

// source is one archive file of one peer.
type source struct {
	peer   string
	file   control.ArchiveFile
	offset int64 // end of the last record read
	// copied and size describe its copy in a WACZ.
	copied string
	size   int64
}

// work is the working directory of an export, removed at its end.
type work struct {
	o       *Options
	dir     string
	records int64    // written
	damaged []Damage // skipped parts
	file    *os.File // the output; nil with a stream
	out     *bufio.Writer
	count   *control.CountingWriter
	pages   *os.File // the page list of a WACZ
	lock    *storage.Lock
	lines   *extsort.Sorter // of an index
	expect  *extsort.Sorter // IDs of records: see expectations
}

// output is the output in the making.
func (w *work) output() string { return filepath.Join(w.dir, outName) }

func openWork(o *Options) (w *work, err error) {
	w = &work{o: o}
	if o.Output == "" {
		w.dir, err = os.MkdirTemp("", "apoidea-export-*")
	} else {
		w.dir, err = makePart(o)
	}
	if err != nil {
		return nil, err
	}
	w.count = &control.CountingWriter{W: o.Stream}
	switch {
	case o.What == Parquet:
		err = os.Mkdir(w.output(), 0o755)
	case o.Output != "":
		if w.file, err = os.Create(w.output()); err == nil {
			w.count.W = w.file
		}
	}
	w.out = bufio.NewWriterSize(w.count, bufferSize)
	if err == nil && o.What == WACZ {
		w.pages, err = os.Create(filepath.Join(w.dir, pagesName))
	}
	if err == nil {
		w.lock, err = takeLock(w.dir)
		w.lines, w.expect = extsort.New(w.dir), extsort.New(w.dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("export: %w", err), w.close())
	}
	return w, nil
}

// takeLock marks the directory of an export and locks it until the end of the process.
func takeLock(dir string) (*storage.Lock, error) {
	if err := os.Mkdir(filepath.Join(dir, lockName), 0o700); err != nil {
		return nil, err
	}
	return storage.Acquire(filepath.Join(dir, lockName))
}

// partOf returns the working directory of an export to a file.
func partOf(output string) string { return filepath.Clean(output) + ".part" }

// makePart creates the directory next to the output. It removes that of a killed export, which is
// known by its content.
func makePart(o *Options) (dir string, err error) {
	if info, err := os.Lstat(o.Output); err == nil {
		if !o.Force {
			return "", control.Usage(fmt.Sprintf("%s exists; name another file, or replace it with --force", o.Output))
		}
		if err := replaceable(o, info); err != nil {
			return "", err
		}
	}
	dir = partOf(o.Output)
	err = os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		if _, serr := os.Stat(filepath.Join(dir, lockName)); serr != nil {
			return "", control.Usage(fmt.Sprintf("%s is not a directory of a killed export; remove it, or name another file", dir))
		}
		lock, lerr := storage.Acquire(filepath.Join(dir, lockName))
		if lerr != nil {
			return "", control.Usage(fmt.Sprintf("%s is in use by another export (%v)", dir, lerr))
		}
		if err = errors.Join(os.RemoveAll(dir), lock.Close()); err == nil {
			err = os.Mkdir(dir, 0o755)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", control.Usage(fmt.Sprintf("output: directory %s does not exist", filepath.Dir(o.Output)))
	}
	if err != nil {
		return "", fmt.Errorf("export: %w", err)
	}
	return dir, nil
}

// replaceable returns a usage error unless an existing output is of the kind that replaces it: a
// file, or a directory with nothing but tables.
func replaceable(o *Options, info fs.FileInfo) error {
	if info.IsDir() != (o.What == Parquet) {
		return control.Usage(fmt.Sprintf("%s is not what export %s writes; name another output", o.Output, o.What))
	}
	if !info.IsDir() {
		return nil
	}
	entries, err := os.ReadDir(o.Output)
	for _, e := range entries {
		if name := e.Name(); name != TableLinks && name != TableHosts && !strings.HasPrefix(name, "crawl=") {
			return control.Usage(fmt.Sprintf("%s has %s, which is no table; remove it, or name another directory", o.Output, name))
		}
	}
	return err
}

// publish renames the output to its final name.
func (w *work) publish() error {
	err := w.out.Flush()
	if w.file != nil {
		err = errors.Join(err, w.file.Sync(), w.file.Close())
		w.file = nil
	}
	if err != nil || w.o.Output == "" {
		return err
	}
	if _, err := os.Lstat(w.o.Output); err == nil && !w.o.Force {
		return fmt.Errorf("export: %s was created meanwhile; name another file", w.o.Output)
	}
	if w.o.What == Parquet && w.o.Force {
		err = os.Rename(w.o.Output, filepath.Join(w.dir, "replaced"))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	return cmp.Or(err, os.Rename(w.output(), w.o.Output))
}

// close removes the directory.
func (w *work) close() error {
	var errs []error
	for _, f := range []*os.File{w.file, w.pages} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if w.lock != nil {
		errs = append(errs, w.lines.Close(), w.expect.Close(), w.lock.Close())
	}
	return errors.Join(append(errs, os.RemoveAll(w.dir))...)
}
