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
	// maxJournal limits the journal in bytes: about a hundred per archive file.
	maxJournal = 512 << 20
	// journalFormat is the version of the journal.
	journalFormat = 3
	// checkpointEvery and checkpointBytes limit the loss of a crash.
	checkpointEvery = 5 * time.Second
	checkpointBytes = 256 << 20
	bufferSize      = 256 << 10
)

// journal is the state of an export. It is written after the data is synced.
type journal struct {
	Format int    `json:"format"`
	What   string `json:"what"`
	Ring   bool   `json:"ring"`
	Count  bool   `json:"count"`
	JSON   bool   `json:"json,omitempty"`

	Out     int64             `json:"out"`            // synced bytes of the output
	Pages   int64             `json:"pages"`          // synced bytes of the page list of a WACZ
	Main    *waczPage         `json:"main,omitempty"` // the earliest page
	Records int64             `json:"records"`        // written records
	Files   map[string]place  `json:"files"`          // by peer and name
	Listed  map[string]listed `json:"listed"`         // by peer
	Runs    []string          `json:"runs"`
	// Held are the runs of the inventory, Expected the position in each peer's URLs, Indexed the size
	// of the WARC file of a CDXJ.
	Held     []string          `json:"held,omitempty"`
	Expected map[string]listed `json:"expected,omitempty"`
	Indexed  int64             `json:"indexed,omitempty"`
	Damaged  []Damage          `json:"damaged"`
}

// place is the position in an archive file.
type place struct {
	// Offset is the end of the last record read.
	Offset int64 `json:"offset"`
	// Copy and Size describe its copy in a WACZ.
	Copy string `json:"copy,omitempty"`
	Size int64  `json:"size,omitempty"`
	End  bool   `json:"end,omitempty"`
}

// listed is the position in a peer's URLs.
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

// work is the working directory of an export; temporary and created on demand if the export cannot
// be resumed.
type work struct {
	o       *Options
	dir     string
	journal journal
	resumed bool
	kept    bool // the directory is kept after an error

	file    *os.File // the output; nil with a stream
	out     *bufio.Writer
	count   *counted
	pages   *os.File
	sorted  *sorter
	held    inventory
	copying *keepCopy // of a WACZ: the current copy
	last    time.Time
	since   int64 // bytes since the last checkpoint
	written int64 // size of the output
}

// counted counts written bytes.
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

// take creates the directory next to the output, or resumes that of an interrupted export.
func (w *work) take() error {
	if _, err := os.Lstat(w.o.Output); err == nil && !w.o.Force {
		return control.Usage(fmt.Sprintf("%s exists; name another file, or replace it with --force", w.o.Output))
	}
	w.dir = partOf(w.o.Output)
	err := os.Mkdir(w.dir, 0o755)
	switch {
	case err == nil:
		return w.save()
	case errors.Is(err, fs.ErrNotExist):
		return control.Usage(fmt.Sprintf("output: directory %s does not exist", filepath.Dir(w.o.Output)))
	case !errors.Is(err, fs.ErrExist):
		return fmt.Errorf("export: %w", err)
	}
	old, err := readJournal(filepath.Join(w.dir, journalName))
	if err != nil {
		return control.Usage(fmt.Sprintf("%s is not a directory of an interrupted export (%v); remove it, or name another file", w.dir, err))
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
		return control.Usage(fmt.Sprintf("%s belongs to an interrupted export of %s%s; finish that one, or start over with --force", w.dir, old.What, map[bool]string{true: " --ring"}[old.Ring]))
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

// parseJournal decodes a journal and rejects file names outside its directory.
func parseJournal(raw []byte) (*journal, error) {
	j := &journal{}
	if err := json.Unmarshal(raw, j); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if j.Format != journalFormat {
		return nil, fmt.Errorf("journal: format %d, must be %d", j.Format, journalFormat)
	}
	if j.Out < 0 || j.Pages < 0 || j.Indexed < 0 {
		return nil, fmt.Errorf("journal: sizes %d, %d and %d", j.Out, j.Pages, j.Indexed)
	}
	for _, name := range slices.Concat(j.Runs, j.Held) {
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("journal: runs: invalid file name %q", name)
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

// open opens the output, truncated to the size in the journal.
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

// openAt opens a file for writing, truncated to size.
func openAt(path string, size int64) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < size {
		err = fmt.Errorf("%s has %d bytes, the journal %d", path, info.Size(), size)
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

// due counts bytes read, and writes a checkpoint after checkpointBytes or checkpointEvery. It is
// called when data and journal agree.
func (w *work) due(n int64) error {
	w.since += n
	if w.since < checkpointBytes && w.o.Now().Sub(w.last) < checkpointEvery {
		return nil
	}
	return w.checkpoint()
}

// checkpoint syncs the data and then the journal. It does nothing without an output.
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

// save replaces the journal atomically.
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

// assemble writes an output that is created at the end.
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

// publish renames the output to its final name.
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
		return fmt.Errorf("export: %s was created meanwhile; the export is in %s", w.o.Output, filepath.Join(w.dir, outName))
	}
	return os.Rename(filepath.Join(w.dir, outName), w.o.Output)
}

// close releases the directory; it is kept only for an export that can be resumed.
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
