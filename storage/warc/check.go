package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrDamaged reports a file that cannot be continued: records follow unreadable bytes.
var ErrDamaged = errors.New("the archive is corrupt")

// Problem is a defect of an archive file or its index.
type Problem struct {
	File string // name without directory
	Text string // description
	// Lines are those index lines whose records are lost.
	Lines []IndexLine
	// Index reports that only the index is wrong: no record is lost.
	Index bool
	// Note reports a normal result of a crash.
	Note bool
}

// Checker reads the files of an archive that no process writes to, and verifies their digests and
// indexes.
type Checker struct {
	Dir    string // of the archive
	Report func(Problem)
	// Each is called with each readable exchange. Its error ends the check.
	Each func(url string, date time.Time) error
}

// Check checks all files, and then the indexes without one.
func (c *Checker) Check() error {
	paths, err := Files(c.Dir, true)
	if err != nil {
		return fmt.Errorf("check archive: %w", err)
	}
	known := make(map[string]bool)
	for _, path := range paths {
		name := filepath.Base(path)
		known[IndexName(name)] = true
		if err := c.file(name); err != nil {
			return fmt.Errorf("check archive: %s: %w", name, err)
		}
	}
	return c.moved(known)
}

// MovedIndex is the suffix of an index whose archive file was moved to other storage. Its pages
// count as archived, and the file is not read.
const MovedIndex = indexSuffix + ".moved"

// moved checks the indexes whose archive file is not here.
func (c *Checker) moved(known map[string]bool) error {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return fmt.Errorf("check archive: %w", err)
	}
	var missing []Problem
	for _, e := range entries {
		name := e.Name()
		moved := strings.HasSuffix(name, MovedIndex)
		if known[name] || !moved && !strings.HasSuffix(name, indexSuffix) {
			continue
		}
		lines, err := readIndex(filepath.Join(c.Dir, name))
		if !moved {
			text := "WARC file of this index missing; if it was moved, rename the index to " + strings.TrimSuffix(name, indexSuffix) + MovedIndex
			missing = append(missing, Problem{File: name, Text: text, Lines: lines})
			continue
		}
		if err != nil {
			c.Report(Problem{File: name, Text: err.Error(), Index: true, Note: true})
		}
		for i := range lines {
			if err := c.Each(lines[i].URL, lines[i].Date); err != nil {
				return err
			}
		}
	}
	for _, p := range missing { // last, since the pages may be in another file
		c.Report(p)
	}
	return nil
}

// readIndex reads the valid lines of an index; a missing one has no lines.
func readIndex(path string) ([]IndexLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ParseIndex(f)
}

// indexPath returns the path of a file's index: finished, or of a file that is still open.
func indexPath(dir, name string) string {
	path := filepath.Join(dir, IndexName(name))
	if strings.HasSuffix(name, openSuffix) {
		path += openSuffix
	}
	return path
}

// fileSource opens a file of the archive.
func fileSource(path string) Source {
	return func(offset int64) (io.ReadCloser, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
}

// readable calls each for the readable records of a file, with the index entry of an exchange and
// nil for other records, and lost for the bytes between them, with the lines of the index. index
// reads the records.
func readable(dir, name string, index *Indexer, each func(rec *Record, e *Entry) error, lost func(l Loss, lines []IndexLine) error) error {
	lines, err := readIndex(indexPath(dir, name))
	known := Extents(lines)
	if err != nil {
		known = nil
	}
	return Sift(fileSource(filepath.Join(dir, name)), name, known, func(rec *Record) error {
		e, err := index.Read(rec, nil)
		if err != nil {
			return err
		}
		return each(rec, e)
	}, func(l Loss) error { return lost(l, lines) })
}

// file reads a file and compares its index.
func (c *Checker) file(name string) error {
	final, open := strings.CutSuffix(name, openSuffix)
	var index Indexer
	err := readable(c.Dir, name, &index, func(rec *Record, e *Entry) error {
		if e == nil {
			return nil
		}
		index.Add(e, final, rec.Offset, rec.Length)
		return c.Each(e.URL, e.Date)
	}, func(l Loss, lines []IndexLine) error {
		p := Problem{File: name, Text: l.String(), Lines: within(lines, l)}
		if l.Length == 0 && open {
			p.Text = "trailing bytes are not a record (killed while writing, or corrupt); the next start removes them"
			p.Note = true
		}
		c.Report(p)
		return nil
	})
	if err != nil || open {
		return err
	}
	switch have, err := os.ReadFile(indexPath(c.Dir, name)); {
	case errors.Is(err, os.ErrNotExist):
		c.Report(Problem{File: IndexName(name), Text: "index missing; repair regenerates it from the WARC file", Index: true})
	case err != nil:
		return err
	case !bytes.Equal(sortIndex(have), sortIndex(index.Lines())):
		p := Problem{File: IndexName(name), Text: "the index differs from the records; repair regenerates it", Index: true}
		if sameRecords(have, index.Lines()) {
			p.Text, p.Note = "the index is of an earlier version; repair regenerates it with provenance and today's keys", true
		}
		c.Report(p)
	}
	return nil
}

// sameRecords reports whether two indexes describe the same records, with the keys and the further
// properties of different versions.
func sameRecords(a, b []byte) bool {
	var described [2]map[Extent]IndexLine
	for i, raw := range [][]byte{a, b} {
		described[i] = make(map[Extent]IndexLine)
		if err := ScanIndex(bytes.NewReader(raw), func(l *IndexLine) error {
			described[i][Extent{l.Offset, l.Length}] = IndexLine{URL: l.URL, Digest: l.Digest, Date: l.Date, MIME: l.MIME, Status: l.Status}
			return nil
		}); err != nil {
			return false
		}
	}
	return maps.Equal(described[0], described[1])
}

// within returns the lines whose records lie in lost bytes.
func within(lines []IndexLine, l Loss) []IndexLine {
	return slices.DeleteFunc(slices.Clone(lines), func(at IndexLine) bool {
		return at.Offset+at.Length <= l.Offset || l.Length > 0 && at.Offset >= l.Offset+l.Length
	})
}

// Repair rewrites an archive file, with its index, without the bytes that are not a readable
// record. An open file is finished. The former file is moved to aside if any bytes are left out,
// and so is a wrong index. A sound file stays unchanged.
func Repair(dir, name, aside string) (changed bool, err error) {
	r := &repairing{dir: dir, file: name, name: strings.TrimSuffix(name, openSuffix), aside: aside}
	if r.in, err = os.Open(filepath.Join(dir, name)); err != nil {
		return false, err
	}
	tmp, err := os.OpenFile(filepath.Join(dir, r.name+tempSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, errors.Join(err, r.in.Close())
	}
	r.out = tmp
	err = readable(dir, name, &r.index, r.each, func(Loss, []IndexLine) error {
		r.lossy = true
		return nil
	})
	if err = errors.Join(err, tmp.Sync(), tmp.Close(), r.in.Close()); err == nil {
		changed, err = r.replace()
	}
	return changed, errors.Join(err, removeIfThere(tmp.Name()), syncDir(dir))
}

// repairing copies the readable records of a file.
type repairing struct {
	dir, file, name, aside string // name is that of the finished file
	in, out                *os.File
	at                     int64
	index                  Indexer
	lossy                  bool
}

func (r *repairing) each(rec *Record, e *Entry) error {
	if e != nil {
		r.index.Add(e, r.name, r.at, rec.Length)
	}
	n, err := io.Copy(r.out, io.NewSectionReader(r.in, rec.Offset, rec.Length))
	r.at += n
	return err
}

// replace replaces the file by its readable records.
func (r *repairing) replace() (changed bool, err error) {
	index, lines := filepath.Join(r.dir, IndexName(r.name)), r.index.Lines()
	if !r.lossy && r.file == r.name {
		if have, err := os.ReadFile(index); err == nil && bytes.Equal(sortIndex(have), sortIndex(lines)) {
			return false, nil
		}
		return true, errors.Join(r.putAside(index), writeIndex(index, lines))
	}
	if err := errors.Join(r.putAside(filepath.Join(r.dir, r.file)), r.putAside(index), removeIfThere(index+openSuffix)); err != nil || len(lines) == 0 {
		return true, err
	}
	if err := os.Rename(r.out.Name(), filepath.Join(r.dir, r.name)); err != nil {
		return true, err
	}
	return true, writeIndex(index, lines)
}

// putAside moves an existing file out of the archive.
func (r *repairing) putAside(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(r.aside, 0o700); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(r.aside, filepath.Base(path)))
}
