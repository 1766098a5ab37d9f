package export

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// The lists of a scratch database.
const (
	listLines    byte = 'l' // lines of the output, in their order, repeated lines included
	listExpected byte = 'e' // IDs of WARC records that archives should hold
	listMoved    byte = 'm' // URLs in archive files that were moved away
)

// batchBytes limits the changes in memory.
const batchBytes = 1 << 20

// maxLine limits a line in bytes.
const maxLine = 1 << 20

var errLongLine = fmt.Errorf("line of more than %d bytes", maxLine)

// scratch is a temporary database, which sorts on disk with limited memory.
type scratch struct {
	store *storage.Store
	space *storage.Keyspace
	batch []change
	size  int
	lines uint64
}

type change struct {
	key, value []byte
	remove     bool
}

func openScratch(dir string) (*scratch, error) {
	store, err := storage.Open(filepath.Join(dir, scratchName), storage.Options{MemTableBytes: 16 << 20})
	if err != nil {
		return nil, err
	}
	return &scratch{store: store, space: store.Keyspace(storage.KeyspaceScratch)}, nil
}

// add adds a line to be sorted, unless it is empty.
func (s *scratch) add(line []byte) error {
	if len(line) == 0 {
		return nil
	}
	if len(line) > maxLine {
		return errLongLine
	}
	s.lines++
	key := append(append(make([]byte, 0, len(line)+9), listLines), line...)
	return s.queue(change{key: binary.BigEndian.AppendUint64(key, s.lines)})
}

// set sets the value of a key in a list.
func (s *scratch) set(list byte, key, value string) error {
	return s.queue(change{key: append([]byte{list}, key...), value: []byte(value)})
}

// remove removes a key from a list.
func (s *scratch) remove(list byte, key string) error {
	return s.queue(change{key: append([]byte{list}, key...), remove: true})
}

func (s *scratch) queue(c change) error {
	s.batch = append(s.batch, c)
	if s.size += len(c.key) + len(c.value); s.size < batchBytes {
		return nil
	}
	return s.flush()
}

func (s *scratch) flush() error {
	err := s.space.UpdateNoSync(func(b kv.Batch) {
		for _, c := range s.batch {
			if c.remove {
				b.Delete(c.key)
			} else {
				b.Set(c.key, c.value)
			}
		}
	})
	clear(s.batch)
	s.batch, s.size = s.batch[:0], 0
	return err
}

// has reports whether a list has a key.
func (s *scratch) has(list byte, key string) (bool, error) {
	if err := s.flush(); err != nil {
		return false, err
	}
	return s.space.Has(append([]byte{list}, key...))
}

// each calls fn for the keys of a list in order; key and value are valid during the call.
func (s *scratch) each(ctx context.Context, list byte, fn func(key, value []byte) error) error {
	err := s.flush()
	if err != nil {
		return err
	}
	n := 0
	scanErr := s.space.Scan([]byte{list}, []byte{list + 1}, func(key, value []byte) bool {
		if n++; n%4096 == 0 {
			err = ctx.Err()
		}
		if err == nil {
			err = fn(key[1:], value)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return scanErr
}

// sorted calls fn for the added lines in order.
func (s *scratch) sorted(ctx context.Context, fn func(line []byte) error) error {
	return s.each(ctx, listLines, func(key, _ []byte) error { return fn(key[:len(key)-8]) })
}

// spoolMemory is the maximum size of a record in memory, in bytes; the rest goes to disk.
const spoolMemory = 4 << 20

// spool buffers the bytes of one record until its digests are verified.
type spool struct {
	dir  string
	mem  []byte
	file *os.File // nil until needed
	size int64    // in the file
}

// Write implements io.Writer.
func (s *spool) Write(p []byte) (int, error) {
	if s.size == 0 && len(s.mem)+len(p) <= spoolMemory {
		s.mem = append(s.mem, p...)
		return len(p), nil
	}
	if s.file == nil {
		f, err := os.CreateTemp(s.dir, "record-*")
		if err != nil {
			return 0, own(err)
		}
		s.file = f
	}
	n, err := s.file.Write(p)
	s.size += int64(n)
	return n, own(err)
}

// reset empties the spool.
func (s *spool) reset() error {
	s.mem = s.mem[:0]
	if s.size == 0 {
		return nil
	}
	s.size = 0
	if err := s.file.Truncate(0); err != nil {
		return err
	}
	_, err := s.file.Seek(0, io.SeekStart)
	return err
}

// len returns the number of bytes.
func (s *spool) len() int64 { return int64(len(s.mem)) + s.size }

// copyTo writes the content to w.
func (s *spool) copyTo(w io.Writer) error {
	if _, err := w.Write(s.mem); err != nil || s.size == 0 {
		return err
	}
	_, err := io.Copy(w, io.NewSectionReader(s.file, 0, s.size))
	return err
}

// close removes the file.
func (s *spool) close() {
	if s.file != nil {
		_ = errors.Join(s.file.Close(), os.Remove(s.file.Name()))
	}
}
