package warc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// file is the subset of *os.File that a Writer uses.
type file interface {
	io.Writer
	Sync() error
	Truncate(size int64) error
	Seek(offset int64, whence int) (int64, error)
	Close() error
}

func createFile(path string) (file, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// openFile is the file being written. The writer's mutex guards all methods but sync, until the
// writer releases the file to finish it.
type openFile struct {
	dir, name string
	file      file
	index     file

	begin   int64 // end of the warcinfo record
	written int64 // bytes written to the file, always complete exchanges
	pending []byte
	ends    []int  // end of each exchange in pending
	lines   []byte // index lines not yet written
	places  []int  // end of the lines of each pending exchange in lines
	indexed int64  // bytes of index written

	damaged bool // pending was not written completely

	closing sync.Mutex // guards the fields below: a late sync finds the file finished
	closed  bool
	err     error // result of the final fsync
	entered bool  // the directory entry is on disk
}

// begin creates the next file with its warcinfo record.
func (w *Writer) begin() error {
	w.serial++
	now := w.config.Now().UTC()
	base := fmt.Sprintf("%s-%s-%05d", w.config.Prefix, now.Format(timeInName), w.serial)
	if w.config.Peer != "" {
		base += "-" + w.config.Peer
	}
	name := base + w.config.Compression.Suffix()
	f, err := w.config.create(filepath.Join(w.dir, name+openSuffix))
	if err != nil {
		return err
	}
	index, err := w.config.create(filepath.Join(w.dir, base+indexSuffix+openSuffix))
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(filepath.Join(w.dir, name+openSuffix)))
	}
	o := &openFile{dir: w.dir, name: name, file: f, index: index}
	o.pending = Warcinfo(w.config, name, now)
	o.begin = int64(len(o.pending))
	o.ends, o.places = []int{len(o.pending)}, []int{0}
	w.open = o
	return nil
}

func (o *openFile) size() int64 { return o.written + int64(len(o.pending)) }

func (o *openFile) add(m *Members) {
	if len(m.index) > 0 { // not of a record without an exchange
		o.lines = append(o.lines, m.index...)
		o.lines = append(appendPlace(o.lines, o.size(), o.name), m.tail...)
	}
	o.pending = append(o.pending, m.data...)
	o.ends = append(o.ends, len(o.pending))
	o.places = append(o.places, len(o.lines))
}

// flush writes the pending exchanges. If they do not fit, it truncates the file to the last
// complete exchange, so that it stays readable.
func (o *openFile) flush() error {
	n, err := o.file.Write(o.pending)
	whole, lines := 0, 0
	for i, end := range o.ends {
		if end <= n {
			whole, lines = end, o.places[i]
		}
	}
	if err != nil {
		err = errors.Join(err, o.cut(o.file, o.written+int64(whole)))
	}
	o.written += int64(whole)
	if ierr := o.flushIndex(lines); err == nil {
		err = ierr
	}
	o.pending, o.ends = emptied(o.pending), o.ends[:0]
	o.lines, o.places = emptied(o.lines), o.places[:0]
	return err
}

func (o *openFile) flushIndex(lines int) error {
	n, err := o.index.Write(o.lines[:lines])
	if err != nil {
		return errors.Join(err, o.cut(o.index, o.indexed))
	}
	o.indexed += int64(n)
	return nil
}

// cut truncates f and continues there.
func (o *openFile) cut(f file, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	_, err := f.Seek(size, io.SeekStart)
	return err
}

// emptied reuses the memory of b unless one giant exchange made it large.
func emptied(b []byte) []byte {
	if cap(b) > 4*flushSize {
		return nil
	}
	return b[:0]
}

// sync is called without the writer's mutex. For a file that was finished meanwhile it returns that
// result.
func (o *openFile) sync() error {
	o.closing.Lock()
	defer o.closing.Unlock()
	if o.closed {
		return o.err
	}
	if err := o.file.Sync(); err != nil || o.entered {
		return err
	}
	err := syncDir(o.dir)
	o.entered = err == nil
	return err
}

// finish syncs a file, writes its index, and renames it. If that fails the file keeps its open
// name, and the next Open rebuilds the index.
func (o *openFile) finish() error {
	if err := o.close(); err != nil || o.damaged {
		return err
	}
	unsorted := filepath.Join(o.dir, IndexName(o.name)+openSuffix)
	if o.written <= o.begin {
		return errors.Join(os.Remove(filepath.Join(o.dir, o.name+openSuffix)), os.Remove(unsorted))
	}
	lines, err := os.ReadFile(unsorted)
	if err != nil {
		return err
	}
	if err := seal(o.dir, o.name, lines); err != nil {
		return err
	}
	return os.Remove(unsorted)
}

// close syncs and closes a file, so that its bytes and its open name are on disk.
func (o *openFile) close() error {
	o.closing.Lock()
	defer o.closing.Unlock()
	o.closed = true
	o.err = errors.Join(o.file.Sync(), syncDir(o.dir), o.file.Close(), o.index.Close())
	return o.err
}

// seal writes the index of a complete file, and then removes the open suffix.
func seal(dir, name string, lines []byte) error {
	if err := writeIndex(filepath.Join(dir, IndexName(name)), lines); err != nil {
		return err
	}
	path := filepath.Join(dir, name)
	if err := os.Rename(path+openSuffix, path); err != nil {
		return err
	}
	return syncDir(dir)
}

// recover finishes the files that a crash left open and finds the next serial number.
func (w *Writer) recover() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name, ok := strings.CutPrefix(e.Name(), w.config.Prefix+"-")
		if !ok {
			continue
		}
		w.serial = max(w.serial, serialOf(name))
		finished, open := strings.CutSuffix(e.Name(), openSuffix)
		if !open || !w.mine(finished) {
			continue
		}
		if err := recoverFile(w.dir, finished, w.config.Found); err != nil {
			return err
		}
	}
	return w.removeLeftovers(entries)
}

// removeLeftovers removes open indexes that are finished or were rebuilt.
func (w *Writer) removeLeftovers(entries []os.DirEntry) error {
	for _, e := range entries {
		for _, suffix := range []string{indexSuffix + openSuffix, indexSuffix + tempSuffix} {
			base, ok := strings.CutSuffix(e.Name(), suffix)
			if !ok || !strings.HasPrefix(base, w.config.Prefix+"-") || !w.ours(base) {
				continue
			}
			if err := removeIfThere(filepath.Join(w.dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// mine reports whether a file is an archive file of this peer.
func (w *Writer) mine(name string) bool {
	base, _, ok := CutName(name)
	return ok && w.ours(base)
}

// ours reports whether a name without its suffix is one of this writer. Writers without a peer name
// own the directory.
func (w *Writer) ours(base string) bool {
	return w.config.Peer == "" || strings.HasSuffix(base, "-"+w.config.Peer)
}

// serialOf returns the serial number in TIME-SERIAL-PEER, zero if there is none.
func serialOf(name string) int {
	_, rest, ok := strings.Cut(name, "-")
	if !ok {
		return 0
	}
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(rest[:end])
	if err != nil {
		return 0
	}
	return n
}

// recoverFile truncates a file after its last complete record, indexes and seals it. A file without
// exchanges is removed.
func recoverFile(dir, name string, found func(e Entry, at Ref)) error {
	path := filepath.Join(dir, name+openSuffix)
	unsorted := filepath.Join(dir, IndexName(name)+openSuffix)
	good, exchanges, err := wholeRecords(path)
	if err != nil {
		return err
	}
	known, _ := readIndex(unsorted)
	if next, err := Resume(fileSource(path), name, good+1, Extents(known)); err == nil {
		return fmt.Errorf("%w: %s: corrupt bytes %d to %d are followed by records", ErrDamaged, name+openSuffix, good, next)
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	if exchanges == 0 {
		return errors.Join(os.Remove(path), removeIfThere(unsorted))
	}
	if err := truncateAndSync(path, good); err != nil {
		return err
	}
	index, err := indexFile(path, name, found)
	if err != nil {
		return err
	}
	if err := seal(dir, name, index); err != nil {
		return err
	}
	return removeIfThere(unsorted)
}

// wholeRecords returns the end of the last complete record of a file, and the number of responses
// and revisits before it.
func wholeRecords(path string) (end int64, exchanges int, err error) {
	err = scanFile(path, func(rec *Record) error {
		if err := rec.Skip(); err != nil {
			return err
		}
		end = rec.Offset + rec.Length
		if rec.Type == TypeResponse || rec.Type == TypeRevisit {
			exchanges++
		}
		return nil
	})
	// Corruption ends the readable part: after a crash of the machine the tail is undefined.
	if _, is := errors.AsType[*os.PathError](err); is {
		return 0, 0, err
	}
	return end, exchanges, nil
}

func truncateAndSync(path string, size int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Sync(), f.Close())
}

func removeIfThere(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes a new or renamed file survive a crash of the machine.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return syncAndClose(d)
}

// syncAndClose syncs a directory. Windows and some network file systems do not support that; the
// system handles it there.
func syncAndClose(d interface {
	Sync() error
	io.Closer
},
) error {
	err := d.Sync()
	if runtime.GOOS == "windows" || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
