package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ErrDamaged says that a file cannot be gone on with: records lie behind bytes that cannot be read.
var ErrDamaged = errors.New("the archive is damaged")

// Problem is one thing that is wrong with an archive file or its index.
type Problem struct {
	File string // without its directory
	Text string // what is wrong, for people
	// URLs that lie in damaged bytes, where the index tells.
	URLs []string
	// Index says that only the index is wrong: no record is lost.
	Index bool
	// Note says that it may be as it should: a crash leaves it so.
	Note bool
}

// Held is an exchange that an archive file holds.
type Held struct {
	Entry
	// ReferenceTo is the record that a revisit refers to, without angle brackets.
	RefersTo       string
	Offset, Length int64 // bytes in the file
}

// Checker looks at the files of an archive that nobody writes to.
type Checker struct {
	Dir string // of the archive
	// Data has every member read and its digests computed. Without it the indexes are followed to
	// the heads of records.
	Data bool
	// Tell hears of each problem, Each of each exchange that is there; what is known by an index
	// alone has no RecordID.
	Tell func(Problem)
	Each func(*Held) error // hears of each exchange; its error ends the check

	bare []string // files without an index
}

// Check looks at all files.
func (c *Checker) Check() error {
	paths, err := Files(c.Dir, true)
	if err != nil {
		return err
	}
	known := make(map[string]bool) // names of indexes
	for _, path := range paths {
		name := filepath.Base(path)
		known[IndexName(name)] = true
		if err := c.file(name); err != nil {
			return fmt.Errorf("check archive: %s: %w", name, err)
		}
	}
	indexes, err := filepath.Glob(filepath.Join(escapeGlob(c.Dir), "*"+indexSuffix))
	if err != nil {
		return fmt.Errorf("check archive: %w", err)
	}
	for _, path := range indexes {
		name := filepath.Base(path)
		if known[name] {
			continue
		}
		lines, _ := readIndex(path)
		p := Problem{File: name, Text: "WARC file of this index missing; if it was moved, rename the index to " + strings.TrimSuffix(name, indexSuffix) + MovedIndex}
		if now := c.renamed(lines); now != "" {
			p = Problem{File: name, Text: "its WARC file was renamed to " + now, Index: true}
			lines = nil
		}
		for i := range lines {
			p.URLs = append(p.URLs, lines[i].URL)
		}
		c.Tell(p)
	}
	return c.moved()
}

// MovedIndex ends the name of an index whose archive file a person has moved to other storage. Its
// pages count as held, and nothing is read of them.
const MovedIndex = indexSuffix + ".moved"

func (c *Checker) moved() error {
	indexes, err := filepath.Glob(filepath.Join(escapeGlob(c.Dir), "*"+MovedIndex))
	for _, path := range indexes {
		lines, rerr := readIndex(path)
		if rerr != nil {
			c.Tell(Problem{File: filepath.Base(path), Text: rerr.Error(), Index: true, Note: true})
		}
		for i := range lines {
			err = errors.Join(err, c.Each(&Held{Entry: Entry{URL: lines[i].URL, Date: lines[i].Date}}))
		}
	}
	return err
}

// renamed finds, among the files without an index, the one that has every record that the lines of
// another one lead to.
func (c *Checker) renamed(lines []IndexLine) (name string) {
	for _, name := range c.bare {
		f, err := os.Open(filepath.Join(c.Dir, name))
		if err != nil {
			continue
		}
		all := len(lines) > 0
		for i := 0; i < len(lines) && all; i++ {
			all = leads(f, &lines[i])
		}
		if _ = f.Close(); all {
			return name
		}
	}
	return ""
}

// leads says whether a line leads to its record in a file.
func leads(f io.ReaderAt, l *IndexLine) bool {
	rec, err := NewReaderAt(io.NewSectionReader(f, l.Offset, l.Length), false, l.Offset).Next()
	return err == nil && rec.TargetURI == l.URL && rec.Date.Truncate(time.Second).Equal(l.Date)
}

// readIndex reads an index as far as it goes; a missing one has no lines.
func readIndex(path string) ([]IndexLine, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ParseIndex(f)
}

// lines are those of a file's index, or of the help that an open one has.
func (c *Checker) lines(name string) ([]IndexLine, error) {
	path := c.indexPath(name)
	if strings.HasSuffix(name, openSuffix) {
		path += openSuffix
	}
	return readIndex(path)
}

func (c *Checker) indexPath(name string) string {
	return filepath.Join(c.Dir, IndexName(name))
}

func (c *Checker) file(name string) error {
	lines, err := c.lines(name)
	open := strings.HasSuffix(name, openSuffix)
	if !open && err == nil && !c.Data {
		sound, err := c.follow(name, lines)
		if sound || err != nil {
			return err
		}
	}
	if errors.Is(err, os.ErrNotExist) && !open {
		c.bare = append(c.bare, name)
		c.Tell(Problem{File: filepath.Base(c.indexPath(name)), Text: "index missing; repair regenerates it from the WARC file", Index: true})
	}
	return c.sift(name, lines, err == nil)
}

// from opens a file of the archive.
func (c *Checker) from(name string) Source { return fileSource(filepath.Join(c.Dir, name)) }

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

// sift reads a file whole, tells what of it is lost, and whether its index is right.
func (c *Checker) sift(name string, lines []IndexLine, sound bool) error {
	known := Extents(lines)
	if !sound {
		known = nil
	}
	final := strings.TrimSuffix(name, openSuffix)
	var index []byte
	var tail *Problem
	err := Sift(c.from(name), name, known, func(rec *Record) error {
		h, err := held(rec)
		if h == nil || err != nil {
			return err
		}
		index = h.AppendLine(index, final, h.Offset, h.Length)
		return c.Each(h)
	}, func(l Loss) error {
		p := Problem{File: name, Text: l.String(), URLs: within(lines, l)}
		if l.Length == 0 && name != final {
			p.Text = "trailing bytes are not a record (killed while writing, or corrupt); the next start removes them"
			p.Note, tail = true, &p
			return nil
		}
		c.Tell(p)
		return nil
	})
	if tail != nil {
		c.Tell(*tail)
	}
	if err != nil || name != final {
		return err
	}
	return c.compare(name, index)
}

// held reads an exchange's first record to its end; nil for other records.
func held(rec *Record) (*Held, error) {
	if rec.Type != TypeResponse && rec.Type != TypeRevisit {
		return nil, rec.Skip()
	}
	entry, err := rec.Entry()
	if err != nil {
		return nil, err
	}
	return &Held{Entry: entry, RefersTo: strings.Trim(rec.Get("WARC-Refers-To"), "<>"), Offset: rec.Offset, Length: rec.Length}, nil
}

// within are the URLs whose records lie in a stretch.
func within(lines []IndexLine, l Loss) (urls []string) {
	for i := range lines {
		if at := &lines[i]; at.Offset+at.Length > l.Offset && (l.Length == 0 || at.Offset < l.Offset+l.Length) {
			urls = append(urls, at.URL)
		}
	}
	return urls
}

// compare says where an index is not that of the records.
func (c *Checker) compare(name string, want []byte) error {
	have, err := os.ReadFile(c.indexPath(name))
	if errors.Is(err, os.ErrNotExist) {
		return nil // told
	}
	if err != nil {
		return err
	}
	nowhere, without := differences(sortedLines(have), sortedLines(want))
	if nowhere+without > 0 {
		c.Tell(Problem{File: filepath.Base(c.indexPath(name)), Index: true, Text: fmt.Sprintf("%d index lines without a record, %d records without an index line", nowhere, without)})
	}
	return nil
}

func sortedLines(raw []byte) [][]byte {
	lines := bytes.SplitAfter(raw, []byte("\n"))
	slices.SortFunc(lines, bytes.Compare)
	return lines
}

// differences counts the lines of two sorted lists that only one has.
func differences(a, b [][]byte) (onlyA, onlyB int) {
	for len(a) > 0 || len(b) > 0 {
		order := 0
		switch {
		case len(a) == 0:
			order = 1
		case len(b) == 0:
			order = -1
		default:
			order = bytes.Compare(a[0], b[0])
		}
		if order < 0 {
			onlyA += min(len(a[0]), 1)
		}
		if order > 0 {
			onlyB += min(len(b[0]), 1)
		}
		if order <= 0 {
			a = a[1:]
		}
		if order >= 0 {
			b = b[1:]
		}
	}
	return onlyA, onlyB
}

// follow looks at the head of each record that an index names, and at all that lies between those
// records: nothing that is there may be without a line. It is not sound if something is otherwise,
// which reading the file then tells.
func (c *Checker) follow(name string, lines []IndexLine) (sound bool, err error) {
	if Extents(lines) == nil {
		return false, nil
	}
	slices.SortFunc(lines, func(a, b IndexLine) int { return cmp.Compare(a.Offset, b.Offset) })
	f, err := os.Open(filepath.Join(c.Dir, name))
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	end := int64(0)
	for i := range lines {
		l := &lines[i]
		if l.File != name || !leads(f, l) || !between(f, end, l.Offset) {
			return false, nil // the file is read instead, which tells what is wrong
		}
		end = l.Offset + l.Length
	}
	if !between(f, end, info.Size()) {
		return false, nil
	}
	for i := range lines {
		l := &lines[i]
		h := &Held{Entry: Entry{URL: l.URL, Digest: l.Digest, Date: l.Date, MIME: l.MIME, Status: l.Status}, Offset: l.Offset, Length: l.Length}
		if err := c.Each(h); err != nil {
			return true, err
		}
	}
	return true, nil
}

// between says whether nothing but sound records of other kinds lies between two exchanges.
func between(f io.ReaderAt, from, to int64) bool {
	r := NewReaderAt(io.NewSectionReader(f, from, to-from), true, from)
	for {
		rec, err := r.Next()
		if err != nil {
			return errors.Is(err, io.EOF)
		}
		if rec.Type == TypeResponse || rec.Type == TypeRevisit || rec.Skip() != nil {
			return false
		}
	}
}

// Mend makes a file of an archive readable from one end to the other, with its index, and finishes
// it if it was open. The file as it was is moved to aside if something of it is left out, and so is
// an index that was wrong. Nothing is done to a sound file.
func Mend(dir, name, aside string) (changed bool, err error) {
	m := &mending{Checker: Checker{Dir: dir}, file: name, name: strings.TrimSuffix(name, openSuffix), aside: aside}
	lines, err := m.lines(name)
	known := Extents(lines)
	if err != nil {
		known = nil
	}
	if m.in, err = os.Open(filepath.Join(dir, name)); err != nil {
		return false, err
	}
	tmp, err := os.OpenFile(filepath.Join(dir, m.name+tempSuffix), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, errors.Join(err, m.in.Close())
	}
	m.out = bufio.NewWriterSize(tmp, flushSize)
	err = Sift(m.from(name), name, known, m.each, m.lost)
	if err = errors.Join(err, m.out.Flush(), tmp.Sync(), tmp.Close(), m.in.Close()); err == nil {
		changed, err = m.replace()
	}
	return changed, errors.Join(err, removeIfThere(tmp.Name()), syncDir(dir))
}

// mending writes what is left of a file.
type mending struct {
	Checker
	file, name, aside string // the file, how it is called when it is finished, and where what is damaged goes
	in                *os.File
	out               *bufio.Writer
	at                int64
	index             []byte
	exchanges, losses int
}

func (m *mending) each(rec *Record) error {
	h, err := held(rec)
	if err != nil {
		return err
	}
	if h != nil {
		m.exchanges++
		m.index = h.AppendLine(m.index, m.name, m.at, rec.Length)
	}
	n, err := io.Copy(m.out, io.NewSectionReader(m.in, rec.Offset, rec.Length))
	m.at += n
	return err
}

func (m *mending) lost(Loss) error {
	m.losses++
	return nil
}

// replace puts what was written in the place of what was there.
func (m *mending) replace() (changed bool, err error) {
	index := m.indexPath(m.name)
	if m.losses == 0 && m.file == m.name {
		have, err := os.ReadFile(index)
		if nowhere, without := differences(sortedLines(have), sortedLines(m.index)); err == nil && nowhere+without == 0 {
			return false, nil
		}
		return true, errors.Join(m.putAside(index), writeIndex(index, m.index))
	}
	if m.losses > 0 {
		if err := m.putAside(filepath.Join(m.Dir, m.file)); err != nil {
			return true, err
		}
	} else if err := os.Remove(filepath.Join(m.Dir, m.file)); err != nil {
		return true, err
	}
	if err := errors.Join(m.putAside(index), removeIfThere(index+openSuffix)); err != nil || m.exchanges == 0 {
		return true, err
	}
	if err := os.Rename(filepath.Join(m.Dir, m.name+tempSuffix), filepath.Join(m.Dir, m.name)); err != nil {
		return true, err
	}
	return true, writeIndex(index, m.index)
}

// putAside moves a file that is there out of the archive.
func (m *mending) putAside(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err := os.MkdirAll(m.aside, 0o700); err != nil {
		return err
	}
	return os.Rename(path, filepath.Join(m.aside, filepath.Base(path)))
}
