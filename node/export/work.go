package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/apoidea/apoidea/node/control"
)

const (
	journalName = "journal.json"
	outName     = "out"
	// maxJournal bounds a journal that is read, in bytes: some hundred for each archive file.
	maxJournal = 512 << 20
	// journalFormat is the version of the journal.
	journalFormat = 3
	// checkpointEvery and checkpointBytes say how much of an export a crash may cost.
	checkpointEvery = 5 * time.Second
	checkpointBytes = 256 << 20
	bufferSize      = 256 << 10
)

// journal is how far an export is. All that it speaks of is on disk before it is.
type journal struct {
	Format int    `json:"format"`
	What   string `json:"what"`
	Ring   bool   `json:"ring"`
	Count  bool   `json:"count"`
	JSON   bool   `json:"json,omitempty"`

	Out     int64             `json:"out"`            // whole bytes of the output
	Pages   int64             `json:"pages"`          // and of the list of pages of a WACZ
	Main    *waczPage         `json:"main,omitempty"` // the first of these by date
	Records int64             `json:"records"`        // in them
	Files   map[string]place  `json:"files"`          // by peer and name
	Listed  map[string]listed `json:"listed"`         // by peer
	Runs    []string          `json:"runs"`
	// Held are the runs of the inventory, Expected how far each peer's URLs were read for it,
	// Indexed the bytes of the file that a CDXJ is of.
	Held     []string          `json:"held,omitempty"`
	Expected map[string]listed `json:"expected,omitempty"`
	Indexed  int64             `json:"indexed,omitempty"`
	Damaged  []Damage          `json:"damaged"`
}

// place is how far an archive file was read.
type place struct {
	// Offset is behind the last record that was taken.
	Offset int64 `json:"offset"`
	// Copy and Size are the copy of it in a WACZ.
	Copy string `json:"copy,omitempty"`
	Size int64  `json:"size,omitempty"`
	End  bool   `json:"end,omitempty"`
}

// listed is how far a peer's URLs were read.
type listed struct {
	After string `json:"after,omitempty"`
	End   bool   `json:"end,omitempty"`
}

func (j *journal) place(s *source) place       { return j.Files[s.key()] }
func (j *journal) setPlace(s *source, p place) { j.Files[s.key()] = p }

// source is one archive file of one peer.
type source struct {
	peer string
	file control.ArchiveFile
}

func (s *source) key() string { return s.peer + "/" + s.file.Name }

// work is the directory in which an export is gathered. Without an output to be resumed it is a
// temporary one, made when it is needed.
type work struct {
	o       *Options
	dir     string
	journal journal
	resumed bool
	kept    bool // the directory outlives an error

	file    *os.File // the output being gathered; nil with a stream
	out     *bufio.Writer
	count   *counted
	pages   *os.File
	sorted  *sorter
	held    inventory
	copying *keepCopy // of a WACZ, at present
	last    time.Time
	since   int64 // bytes since the last checkpoint
	written int64 // the output's size
}

// counted counts what is written.
type counted struct {
	w io.Writer
	n int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

func openWork(o *Options) (w *work, err error) {
	w = &work{o: o, last: o.Now(), kept: o.Output != ""}
	w.journal = journal{Format: journalFormat, What: o.What, Ring: o.Ring, Count: o.Count, JSON: o.JSON, Files: map[string]place{}, Listed: map[string]listed{}, Expected: map[string]listed{}}
	if o.Output == "" {
		if w.dir, err = os.MkdirTemp("", "apoidea-export-*"); err != nil {
			return nil, fmt.Errorf("export: %w", err)
		}
	} else if err := w.take(); err != nil {
		return nil, err
	}
	if err := w.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("export: %w", err), w.close(false))
	}
	return w, nil
}

// take makes the directory beside the output, or goes on with the one that an interrupted export
// left.
func (w *work) take() error {
	if _, err := os.Lstat(w.o.Output); err == nil && !w.o.Force {
		return control.Usage(fmt.Sprintf("%s is there already; name another file, or --force replaces it", w.o.Output))
	}
	w.dir = partOf(w.o.Output)
	err := os.Mkdir(w.dir, 0o755)
	switch {
	case err == nil:
		return w.save()
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("export: %w", err)
	}
	old, err := readJournal(filepath.Join(w.dir, journalName))
	if err != nil {
		return control.Usage(fmt.Sprintf("%s is not of an interrupted export (%v); remove it, or name another file", w.dir, err))
	}
	if w.o.Force {
		if err := os.RemoveAll(w.dir); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if err := os.Mkdir(w.dir, 0o755); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		return w.save()
	}
	if old.What != w.o.What || old.Ring != w.o.Ring || old.Count != w.o.Count || old.JSON != w.o.JSON {
		return control.Usage(fmt.Sprintf("%s is of an interrupted export of %s%s; finish that one, or --force begins anew", w.dir, old.What, map[bool]string{true: " --ring"}[old.Ring]))
	}
	w.journal, w.resumed = *old, true
	return nil
}

func readJournal(path string) (*journal, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxJournal))
	if err != nil {
		return nil, err
	}
	return parseJournal(raw)
}

// parseJournal reads a journal and refuses one that names places outside of its directory.
func parseJournal(raw []byte) (*journal, error) {
	j := &journal{}
	if err := json.Unmarshal(raw, j); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if j.Format != journalFormat {
		return nil, fmt.Errorf("journal: format %d, want %d", j.Format, journalFormat)
	}
	if j.Out < 0 || j.Pages < 0 || j.Indexed < 0 {
		return nil, fmt.Errorf("journal: sizes %d, %d and %d", j.Out, j.Pages, j.Indexed)
	}
	for _, name := range slices.Concat(j.Runs, j.Held) {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("journal: runs: %q is no file name", name)
		}
	}
	for key, p := range j.Files {
		if p.Offset < 0 || p.Size < 0 || p.Copy != "" && p.Copy != filepath.Base(p.Copy) {
			return nil, fmt.Errorf("journal: files: %s is at %d, copied to %q", key, p.Offset, p.Copy)
		}
	}
	if j.Files == nil {
		j.Files = map[string]place{}
	}
	if j.Listed == nil {
		j.Listed = map[string]listed{}
	}
	if j.Expected == nil {
		j.Expected = map[string]listed{}
	}
	return j, nil
}

// open opens what is written to, cut back to what the journal speaks of.
func (w *work) open() (err error) {
	if w.o.Output == "" {
		w.count = &counted{w: w.o.Stream}
	} else {
		if w.file, err = openAt(filepath.Join(w.dir, outName), w.journal.Out); err != nil {
			return err
		}
		w.count = &counted{w: w.file, n: w.journal.Out}
	}
	w.out = bufio.NewWriterSize(w.count, bufferSize)
	if w.o.What == WACZ {
		if w.pages, err = openAt(filepath.Join(w.dir, pagesName), w.journal.Pages); err != nil {
			return err
		}
	}
	w.sorted = newSorter(w.dir, "run", w.journal.Runs)
	w.held = inventory{newSorter(w.dir, "held", w.journal.Held)}
	return nil
}

// openAt opens a file to be written from a size on, to which it is cut.
func openAt(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		err = fmt.Errorf("%s has %d bytes, and %d were written", path, info.Size(), size)
	}
	if err == nil {
		err = f.Truncate(size)
	}
	if err == nil {
		_, err = f.Seek(size, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// due notes how much was read, and makes a checkpoint if there was much of it or the last one is
// long ago. It is called when what was taken and the journal agree.
func (w *work) due(n int64) error {
	w.since += n
	if w.since < checkpointBytes && w.o.Now().Sub(w.last) < checkpointEvery {
		return nil
	}
	return w.checkpoint()
}

// checkpoint puts all that was gathered on disk, and then the journal. Without an output there is
// nothing to resume.
func (w *work) checkpoint() error {
	w.since, w.last = 0, w.o.Now()
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if w.o.Output == "" {
		return nil
	}
	err := w.file.Sync()
	w.journal.Out = w.count.n
	if w.pages != nil {
		size, perr := w.pages.Seek(0, io.SeekCurrent)
		w.journal.Pages = size
		err = errors.Join(err, perr, w.pages.Sync())
	}
	if w.copying != nil {
		err = errors.Join(err, w.copying.sync())
	}
	err = errors.Join(err, w.sorted.flush(), w.held.flush())
	w.journal.Runs, w.journal.Held = w.sorted.runs, w.held.runs
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return w.save()
}

// save replaces the journal as a whole.
func (w *work) save() error {
	raw, err := json.Marshal(&w.journal)
	if err != nil {
		return fmt.Errorf("export: journal: %w", err)
	}
	tmp := filepath.Join(w.dir, journalName+".new")
	f, err := os.Create(tmp)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	_, werr := f.Write(raw)
	if err := errors.Join(werr, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("export: journal: %w", err)
	}
	return os.Rename(tmp, filepath.Join(w.dir, journalName))
}

// assemble writes an output that is made at the end, from its beginning.
func (w *work) assemble(write func(w *bufio.Writer) error) error {
	if w.file != nil {
		if err := w.file.Truncate(0); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		if _, err := w.file.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("export: %w", err)
		}
		w.count.n = 0
	}
	if err := write(w.out); err != nil {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return fmt.Errorf("export: %w", err)
	}
	return nil
}

// publish gives the output its name.
func (w *work) publish() error {
	err := w.out.Flush()
	w.written = w.count.n
	if w.file != nil {
		err = errors.Join(err, w.file.Sync(), w.file.Close())
		w.file = nil
	}
	if err != nil || w.o.Output == "" {
		return err
	}
	if _, err := os.Lstat(w.o.Output); err == nil && !w.o.Force {
		return fmt.Errorf("export: %s has come to be there meanwhile; the export is in %s", w.o.Output, filepath.Join(w.dir, outName))
	}
	return os.Rename(filepath.Join(w.dir, outName), w.o.Output)
}

// close lets go of the directory; it stays only for an export to a file that is to be gone on with.
func (w *work) close(done bool) error {
	var errs []error
	for _, f := range []*os.File{w.file, w.pages} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	if w.dir != "" && (done || !w.kept) {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}
