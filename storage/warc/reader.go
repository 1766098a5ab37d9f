package warc

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/gzip"
)

// Limits of reading. Files are untrusted.
const (
	maxHeaderLine  = 64 << 10 // bytes of one line; URLs are shorter
	maxHeaderBytes = 1 << 20  // bytes of the head of a record
	maxHeaderLines = 1000
	maxHTTPHead    = 1 << 20 // bytes of an HTTP head in a block
)

// Errors of reading that callers may test for.
var (
	// ErrFormat reports bytes that are not a WARC record.
	ErrFormat = errors.New("malformed WARC record")
	// ErrTruncated reports that the file ends within a record, as after a crash.
	ErrTruncated = errors.New("truncated WARC record")
	// ErrDigest reports a block or payload that does not match its digest.
	ErrDigest = errors.New("digest mismatch")
)

// Record is one record of a file. Its block must be read in order, before the next call of
// Reader.Next.
type Record struct {
	Type          Type      // WARC-Type
	ID            string    // without the angle brackets
	TargetURI     string    // WARC-Target-URI, empty if there is none
	Date          time.Time // WARC-Date
	ContentLength int64     // bytes of the block
	Header        []Field   // all fields, unchanged
	Offset        int64     // offset of the record in the file, in bytes
	// Length is the number of bytes of the record in the file. It is known after the block was read to
	// its end.
	Length int64

	reader *Reader
	left   int64 // bytes of the block not yet read
	sums   *sums
	done   error // result of Skip
	ended  bool
}

// Get returns the first field of that name, "" if there is none. Names are case-insensitive.
func (r *Record) Get(name string) string {
	for _, f := range r.Header {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// ConcurrentTo returns the ID of the record of the same exchange to which this one refers, without
// angle brackets; "" without one.
func (r *Record) ConcurrentTo() string { return strings.Trim(r.Get("WARC-Concurrent-To"), "<>") }

// Reader reads the records of a .warc, .warc.gz or .warc.zst stream one after the other.
type Reader struct {
	in          *countingReader
	zip         *gzip.Reader
	frames      *frames
	compression Compression // from the first bytes of the first record; empty before it
	verify      bool
	plain       io.Writer     // receives the uncompressed records; may be nil
	lines       *bufio.Reader // over the current record's member or frames, or over the whole plain file
	current     *Record
}

// NewReader returns a Reader of r. With verify it checks the digests of every block that is read to
// its end.
func NewReader(r io.Reader, verify bool) *Reader { return NewReaderAt(r, verify, 0) }

// NewReaderAt is NewReader for input that starts at an offset of a file, at which a record begins:
// reported offsets are those of the file.
func NewReaderAt(r io.Reader, verify bool, offset int64) *Reader {
	return &Reader{in: &countingReader{r: bufio.NewReaderSize(r, 64<<10), n: offset}, verify: verify}
}

// Tee writes every byte consumed from here on to w as well, without read-ahead. Between two calls
// of Next w receives exactly one record as stored, if it was read to its end. An error of w ends
// reading.
func (r *Reader) Tee(w io.Writer) { r.in.tee = w }

// TeePlain writes every record to w uncompressed, as far as it is read. An error of w ends reading.
func (r *Reader) TeePlain(w io.Writer) { r.plain = w }

// Next skips the rest of the last record and returns the next. It returns io.EOF at the end of the
// file, and ErrTruncated, ErrFormat or ErrDigest for an invalid record. It may be called again
// after ErrDigest; the other errors persist.
func (r *Reader) Next() (*Record, error) {
	if r.current != nil {
		last := r.current
		if err := last.Skip(); err != nil {
			if errors.Is(err, ErrDigest) {
				r.current = nil
			}
			return nil, fmt.Errorf("record at %d: %w", last.Offset, err)
		}
		r.current = nil
	}
	offset := r.in.n
	if err := r.open(); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, fmt.Errorf("record at %d: %w", offset, truncated(err))
	}
	rec, err := r.head()
	if err != nil {
		return nil, fmt.Errorf("record at %d: %w", offset, truncated(err))
	}
	rec.Offset = offset
	r.current = rec
	return rec, nil
}

// open starts the next member of a compressed file; a plain file is one stream.
func (r *Reader) open() error {
	start, err := r.in.r.Peek(2)
	if len(start) == 0 {
		return err
	}
	if r.compression == "" {
		r.compression = compressionOf(string(start))
	}
	var packed io.Reader
	switch r.compression {
	case Gzip:
		packed, err = r.member()
	case Zstd:
		packed, err = r.frame()
	default:
		r.lines = r.in.r
		return nil
	}
	if err != nil {
		return err
	}
	if r.lines == nil {
		r.lines = bufio.NewReaderSize(packed, 4<<10)
	} else {
		r.lines.Reset(packed)
	}
	return nil
}

// compressionOf detects the compression by the first two bytes of a file.
func compressionOf(start string) Compression {
	switch start {
	case "\x1f\x8b":
		return Gzip
	case "\x28\xb5", "\x5d\x2a": // a frame of records, or one of a dictionary
		return Zstd
	}
	return None
}

// frame starts the next record of Zstandard frames.
func (r *Reader) frame() (io.Reader, error) {
	if r.frames == nil {
		r.frames = newFrames(r.in)
	}
	r.frames.within = false
	return r.frames, r.frames.next()
}

// member starts the next gzip member.
func (r *Reader) member() (_ io.Reader, err error) {
	if r.zip == nil {
		r.zip, err = gzip.NewReader(r.in)
	} else {
		err = r.zip.Reset(r.in)
	}
	if err != nil {
		return nil, unexpected(err)
	}
	r.zip.Multistream(false)
	return r.zip, nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrTruncated
	}
	_, corrupt := errors.AsType[flate.CorruptInputError](err)
	_, impossible := errors.AsType[flate.InternalError](err) // a corrupt code
	if corrupt || impossible || errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	return err
}

// isVersion reports whether a line begins a record.
func isVersion(line string) bool { return line == version || line == "WARC/1.0" }

// head reads the version line and the fields.
func (r *Reader) head() (*Record, error) {
	first, err := r.line()
	if err != nil {
		return nil, err
	}
	if !isVersion(first) {
		return nil, fmt.Errorf("%w: invalid version line %.40q", ErrFormat, first)
	}
	rec := &Record{reader: r, ContentLength: -1}
	for size := 0; ; {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if line == "" {
			break
		}
		if size += len(line); size > maxHeaderBytes || len(rec.Header) == maxHeaderLines {
			return nil, fmt.Errorf("%w: head exceeds %d bytes or %d lines", ErrFormat, maxHeaderBytes, maxHeaderLines)
		}
		if err := rec.addField(line); err != nil {
			return nil, err
		}
	}
	return rec, rec.interpret()
}

func (r *Record) addField(line string) error {
	if n := len(r.Header); n > 0 && (line[0] == ' ' || line[0] == '\t') {
		r.Header[n-1].Value += " " + strings.TrimSpace(line)
		return nil
	}
	name, value, ok := strings.Cut(line, ":")
	if !ok || name == "" {
		return fmt.Errorf("%w: invalid field %.40q", ErrFormat, line)
	}
	r.Header = append(r.Header, Field{Name: name, Value: strings.TrimSpace(value)})
	return nil
}

func (r *Record) interpret() error {
	n, err := strconv.ParseInt(r.Get("Content-Length"), 10, 64)
	if err != nil || n < 0 {
		return fmt.Errorf("%w: invalid Content-Length %.40q", ErrFormat, r.Get("Content-Length"))
	}
	r.ContentLength, r.left = n, n
	r.Type = Type(r.Get("WARC-Type"))
	r.ID = strings.Trim(r.Get("WARC-Record-ID"), "<>")
	r.TargetURI = strings.Trim(r.Get("WARC-Target-URI"), "<>")
	if r.Date, err = time.Parse(time.RFC3339, r.Get("WARC-Date")); err != nil {
		return fmt.Errorf("%w: invalid WARC-Date %.40q", ErrFormat, r.Get("WARC-Date"))
	}
	if r.reader.verify {
		r.sums = newSums(r)
	}
	return nil
}

// line reads one line of a head, without its end.
func (r *Reader) line() (string, error) {
	line, err := r.lines.ReadSlice('\n')
	if terr := r.count(line); terr != nil {
		return "", terr
	}
	if errors.Is(err, bufio.ErrBufferFull) {
		long := bytes.Clone(line)
		for errors.Is(err, bufio.ErrBufferFull) && len(long) <= maxHeaderLine {
			line, err = r.lines.ReadSlice('\n')
			if terr := r.count(line); terr != nil {
				return "", terr
			}
			long = append(long, line...)
		}
		line = long
	}
	if err == nil && len(line) <= maxHeaderLine {
		return strings.TrimRight(string(line), "\r\n"), nil
	}
	if err == nil || errors.Is(err, bufio.ErrBufferFull) {
		return "", fmt.Errorf("%w: line exceeds %d bytes", ErrFormat, maxHeaderLine)
	}
	return "", unexpected(err)
}

// count updates the position in a plain file, which is read past the counting reader.
func (r *Reader) count(p []byte) (err error) {
	if r.plain != nil && len(p) > 0 {
		_, err = r.plain.Write(p)
	}
	if r.compression != None || err != nil {
		return err
	}
	return r.in.took(p)
}

// Read reads the block. At its end it returns io.EOF, or ErrDigest if verification failed.
func (r *Record) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.end()
	}
	n, err := r.reader.lines.Read(p[:min(int64(len(p)), r.left)])
	if terr := r.reader.count(p[:n]); terr != nil {
		return n, terr
	}
	r.left -= int64(n)
	if r.sums != nil {
		r.sums.write(p[:n])
	}
	if errors.Is(err, io.EOF) && r.left > 0 {
		err = ErrTruncated
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, truncated(err)
}

// end reads the bytes after the block, once, and checks the digests.
func (r *Record) end() error {
	if r.ended {
		return r.done
	}
	r.ended = true
	r.done = io.EOF
	for range 2 {
		line, err := r.reader.line()
		if err != nil {
			r.done = truncated(err)
			return r.done
		}
		if line != "" {
			r.done = fmt.Errorf("%w: unexpected %.40q after the block", ErrFormat, line)
			return r.done
		}
	}
	if r.reader.compression != None {
		// Reading to the end of the member or frame checks its sum and moves the input to the next one.
		if r.reader.frames != nil {
			r.reader.frames.within = true
		}
		n, err := io.Copy(io.Discard, r.reader.lines)
		if err == nil && n > 0 {
			err = fmt.Errorf("%w: more than one record in a member", ErrFormat)
		}
		if err != nil {
			r.done = truncated(err)
			return r.done
		}
	}
	r.Length = r.reader.in.n - r.Offset
	if r.sums != nil {
		if err := r.sums.check(r); err != nil {
			r.done = err
		}
	}
	return r.done
}

// Skip reads the block to its end. It returns nil where Read would return io.EOF.
func (r *Record) Skip() error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// HTTPHead reads the HTTP head at the start of a request, response or revisit block; the body
// remains to be read. A block without an empty line is all head.
func (r *Record) HTTPHead() ([]byte, error) {
	var head []byte
	var one [1]byte
	for len(head) < maxHTTPHead {
		n, err := r.Read(one[:])
		head = append(head, one[:n]...)
		if bytes.HasSuffix(head, []byte("\r\n\r\n")) || bytes.HasSuffix(head, []byte("\n\n")) {
			return head, nil
		}
		if errors.Is(err, io.EOF) {
			return head, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: HTTP head exceeds %d bytes", ErrFormat, maxHTTPHead)
}

// countingReader counts the bytes consumed of a compressed file. It implements ReadByte, so that a
// decompressor takes no byte of the next member.
type countingReader struct {
	r   *bufio.Reader
	n   int64
	tee io.Writer // may be nil
	one [1]byte
}

// took counts consumed bytes.
func (c *countingReader) took(p []byte) error {
	c.n += int64(len(p))
	if c.tee == nil || len(p) == 0 {
		return nil
	}
	_, err := c.tee.Write(p)
	return err
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if terr := c.took(p[:n]); terr != nil {
		return n, terr
	}
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err != nil {
		return b, err
	}
	c.one[0] = b
	return b, c.took(c.one[:])
}

// sums computes the digests of a block while it is read.
type sums struct {
	block, payload hash.Hash // nil if there is nothing to compare
	tail           []byte    // the last bytes of an incomplete HTTP head
}

func newSums(r *Record) *sums {
	s := &sums{}
	if isSHA256(r.Get("WARC-Block-Digest")) {
		s.block = sha256.New()
	}
	// A revisit has the digest of a body that it does not contain.
	if isSHA256(r.Get("WARC-Payload-Digest")) && r.Type == TypeResponse && strings.HasPrefix(r.Get("Content-Type"), "application/http") {
		s.payload, s.tail = sha256.New(), make([]byte, 0, 4)
	}
	return s
}

func isSHA256(digest string) bool {
	algorithm, sum, _ := strings.Cut(digest, ":")
	return (strings.EqualFold(algorithm, "sha256") || strings.EqualFold(algorithm, "sha-256")) && len(sum) == hex.EncodedLen(sha256.Size)
}

func (s *sums) write(p []byte) {
	if s.block != nil {
		s.block.Write(p)
	}
	if s.payload == nil {
		return
	}
	for i := 0; s.tail != nil && i < len(p); i++ {
		s.tail = append(s.tail, p[i])
		if bytes.HasSuffix(s.tail, []byte("\r\n\r\n")) || bytes.HasSuffix(s.tail, []byte("\n\n")) {
			s.tail = nil
			s.payload.Write(p[i+1:])
			return
		}
		if len(s.tail) == 4 {
			s.tail = append(s.tail[:0], s.tail[1:]...)
		}
	}
	if s.tail == nil {
		s.payload.Write(p)
	}
}

func (s *sums) check(r *Record) error {
	for _, c := range []struct {
		name string
		hash hash.Hash
	}{{"WARC-Block-Digest", s.block}, {"WARC-Payload-Digest", s.payload}} {
		if c.hash == nil {
			continue
		}
		_, want, _ := strings.Cut(r.Get(c.name), ":")
		if got := hex.EncodeToString(c.hash.Sum(nil)); !strings.EqualFold(got, want) {
			return fmt.Errorf("%w: %s of %s is %s, not %s", ErrDigest, c.name, r.ID, got, want)
		}
	}
	return nil
}

// scanFile calls fn for each record of the file at path.
func scanFile(path string, fn func(*Record) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	r := NewReader(file, false)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = fn(rec)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
}

// OpenFile opens a file of the archive in dir by its finished name, also while it is open for
// writing: the content is the same.
func OpenFile(dir, name string) (*os.File, error) {
	path := filepath.Join(dir, strings.TrimSuffix(name, openSuffix))
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Open(path + openSuffix)
	}
	return f, err
}

// Files returns the paths of the finished files in dir, and with open also of those being written,
// in the order of names and so of time. An open file may end within a record.
func Files(dir string, open bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list archive: %w", err)
	}
	var paths []string
	for _, e := range entries {
		name, isOpen := strings.CutSuffix(e.Name(), openSuffix)
		if _, _, ok := CutName(name); ok && (open || !isOpen) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}
