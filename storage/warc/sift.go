package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Loss is a stretch of a file in which no record can be read.
type Loss struct {
	Offset, Length int64 // Length is 0 if the file ends there
	Err            error // why
}

// String says in words which bytes are lost, and why.
func (l Loss) String() string {
	if l.Length == 0 {
		return fmt.Sprintf("from byte %d to the end: %v", l.Offset, l.Err)
	}
	return fmt.Sprintf("%d bytes at %d: %v", l.Length, l.Offset, l.Err)
}

// Source opens a file to be read from an offset on.
type Source func(offset int64) (io.ReadCloser, error)

// IsDamage says whether an error of reading is one of the bytes, and not of whoever gives them.
func IsDamage(err error) bool {
	return errors.Is(err, ErrFormat) || errors.Is(err, ErrTruncated) || errors.Is(err, ErrDigest)
}

// Sift goes through a file, behind damage too: it calls each for every record that can be read, and
// lost for each stretch between them that cannot. Each has to read the record to its end, by Skip
// if need be, and to keep what it took only then: an error that is damage makes the record a loss.
// Known is where the file's index has its records, see Extents.
func Sift(open Source, name string, known []Extent, each func(*Record) error, lost func(Loss) error) error {
	for at := int64(0); ; {
		bad, err := siftFrom(open, at, each, lost)
		if err == nil || !IsDamage(err) {
			return err
		}
		next, rerr := Resume(open, name, bad+1, known)
		if rerr != nil && !errors.Is(rerr, io.EOF) {
			return rerr
		}
		l := Loss{Offset: bad, Err: err}
		if rerr == nil {
			l.Length = next - bad
		}
		if err := lost(l); err != nil || rerr != nil {
			return err
		}
		at = next
	}
}

// siftFrom reads records up to the first that cannot be passed, and says where that one begins. A
// record that is whole and not what its digests say is lost alone.
func siftFrom(open Source, at int64, each func(*Record) error, lost func(Loss) error) (bad int64, err error) {
	in, err := open(at)
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	r := NewReaderAt(in, true, at)
	for {
		begin := r.in.n
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return begin, nil
		}
		if err == nil {
			err = rec.checkable()
		}
		if err == nil {
			err = each(rec)
		}
		switch {
		case err == nil:
		case rec != nil && rec.Length > 0 && errors.Is(err, ErrDigest):
			r.current = nil
			if err := lost(Loss{Offset: rec.Offset, Length: rec.Length, Err: err}); err != nil {
				return begin, err
			}
		default:
			return begin, err
		}
	}
}

// checkable refuses a record whose head cannot be trusted: every record of ours has an ID, a length
// and a digest of its block, each once; what damage made of parts of two has not.
func (r *Record) checkable() error {
	once := 0
	for _, f := range r.Header {
		if strings.ContainsFunc(f.Name, func(c rune) bool { return c <= ' ' || c > '~' }) || hasControl(f.Value) {
			return fmt.Errorf("record at %d: %w: field %.40q", r.Offset, ErrFormat, f.Name)
		}
		if strings.EqualFold(f.Name, "WARC-Record-ID") || strings.EqualFold(f.Name, "WARC-Block-Digest") || strings.EqualFold(f.Name, "Content-Length") {
			once++
		}
	}
	if once != 3 || !isSHA256(r.Get("WARC-Block-Digest")) {
		return fmt.Errorf("record at %d: %w: WARC-Record-ID, WARC-Block-Digest and Content-Length are not there once each", r.Offset, ErrFormat)
	}
	return nil
}

// Resume returns where the next record begins, at an offset or behind it, io.EOF if there is none.
// It is the first place that looks like the beginning of a record and lies in none that the index
// knows: a page may be an archive itself.
func Resume(open Source, name string, from int64, known []Extent) (int64, error) {
	for {
		at, err := nextHead(open, name, from)
		if err != nil {
			return 0, err
		}
		i, begins := slices.BinarySearchFunc(known, at, func(e Extent, at int64) int { return cmp.Compare(e.Offset, at) })
		if begins || i == 0 || at >= known[i-1].Offset+known[i-1].Length {
			return at, nil
		}
		from = known[i-1].Offset + known[i-1].Length
	}
}

// Extent is where a record lies by a file's index.
type Extent struct {
	Offset, Length int64 // bytes in the file, as it is stored
}

// headWindow is how much is looked at to see whether a record begins there, in bytes: more than a
// block of a Zstandard frame, which is unpacked as a whole (RFC 8878, 3.1.1.2.4).
const headWindow = 132 << 10

// nextHead returns the first offset, from one on, at which a record's head begins.
func nextHead(open Source, name string, from int64) (int64, error) {
	in, err := open(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = in.Close() }()
	_, c, _ := CutName(name)
	magic, probe := []byte(c.form().magic), NewReader(nil, false)
	r := bufio.NewReaderSize(in, 4*headWindow)
	for {
		window, err := r.Peek(2 * headWindow)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		skip := max(len(window)-len(magic)+1, 0)
		if i := bytes.Index(window, magic); i >= 0 {
			if i > headWindow && err == nil {
				skip = i // looked at again with all that follows
			} else if probe.begins(window[i:]) {
				return from + int64(i), nil
			} else {
				skip = i + 1
			}
		} else if err != nil {
			return 0, io.EOF
		}
		n, err := r.Discard(skip)
		if from += int64(n); err != nil {
			return 0, err
		}
	}
}

// begins says whether a record begins with these bytes, which begin as one does.
func (r *Reader) begins(p []byte) bool {
	r.in.r.Reset(bytes.NewReader(p))
	if r.open() != nil {
		return false
	}
	const next = "\r\nWARC-"
	head, _ := r.lines.Peek(len(version) + len(next))
	line, ok := bytes.CutSuffix(head, []byte(next))
	return ok && isVersion(string(line))
}
