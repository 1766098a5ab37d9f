package export

import (
	"errors"
	"io"
	"os"
)

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
