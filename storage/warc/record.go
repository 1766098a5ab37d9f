package warc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Type is the WARC-Type of a record.
type Type string

// The types that are written.
const (
	TypeWarcinfo Type = "warcinfo"
	TypeResponse Type = "response"
	TypeRequest  Type = "request"
	TypeRevisit  Type = "revisit"
	TypeMetadata Type = "metadata"
	// TypeConversion is a record made from another one (WARC 1.1, 6.8).
	TypeConversion Type = "conversion"
)

const (
	version = "WARC/1.1"
	// ProfileIdenticalDigest is the profile of a revisit with the same body as its original.
	ProfileIdenticalDigest = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"
	// ProfileNotModified is the profile of a revisit whose server answered with status 304 (6.7.3).
	ProfileNotModified = "http://netpreserve.org/warc/1.1/revisit/server-not-modified"

	// TruncatedLength marks a record whose body reached a size limit (WARC 1.1, 5.13).
	TruncatedLength = "length"

	contentTypeResponse = "application/http; msgtype=response"
	contentTypeRequest  = "application/http; msgtype=request"
	contentTypeFields   = "application/warc-fields"
)

// Exchange is one request and its response, to be archived. Its slices are not modified or kept.
type Exchange struct {
	// URL is canonical and without control characters, since it becomes a header line.
	URL string
	// Date is when the request was sent.
	Date time.Time
	// IP is the address of the server. Empty if unknown.
	IP string
	// Protocol is the WARC-Protocol, such as "http/1.1" or "h2". Empty if unknown.
	Protocol string

	// Request is the head of the request with its closing empty line. If empty, no request record is
	// written.
	Request []byte
	// ResponseHead is the status line and header of the response with their closing empty line. It
	// must describe Body: rename the fields of transfer or content codings that were decoded, or
	// readers will decode again.
	ResponseHead []byte
	// Body is the response body.
	Body []byte
	// PayloadDigest is the SHA-256 of Body, also for a revisit, which has no Body.
	PayloadDigest [32]byte
	// Truncated is why Body is incomplete: TruncatedLength, "time", "disconnect" or "unspecified".
	// Empty if it is complete.
	Truncated string
	// RevisitOf is the earlier record of the same body, which makes this a revisit. Nil makes it a
	// response.
	RevisitOf *Original
	// NotModified: the response has status 304, and RevisitOf is the record of the last visit. Body
	// and PayloadDigest are not used.
	NotModified bool

	// Outlinks are the links found in the body, canonical, without duplicates.
	Outlinks []string
	// Fields are written to the metadata record before the outlinks, such as via, hopsFromSeed,
	// fetchTimeMs.
	Fields []Field
}

// Field is a named value of a header or of a metadata record.
type Field struct {
	Name, Value string // Value has no surrounding white space
}

// Original is the record that a revisit refers to.
type Original struct {
	URL      string    // WARC-Refers-To-Target-URI
	Date     time.Time // WARC-Refers-To-Date
	RecordID ID        // zero if unknown
}

// Conversion is the plain text of an archived response. Its slices are not modified or kept.
type Conversion struct {
	URL      string    // of the response
	Date     time.Time // of the response
	RefersTo string    // record ID of the response, without angle brackets
	Language string    // ISO 639-3; empty if unknown
	Text     []byte    // UTF-8
}

// Ref is the location of an exchange in the archive.
type Ref struct {
	File     string // name of the finished file, without its directory
	Offset   int64  // of the response or revisit record, in bytes
	RecordID ID     // of that record
}

// ID is the identity of a record: a random UUID.
type ID [16]byte

// newID must be unique, not secret: its source is seeded by the system and takes no lock.
func newID() ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

const idPrefix = "urn:uuid:"

// String returns the ID as a URN, as it appears in records between angle brackets.
func (id ID) String() string { return string(id.append(nil)) }

func (id ID) append(dst []byte) []byte {
	dst = append(dst, idPrefix...)
	for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, part)
	}
	return dst
}

// ParseID parses the result of String, with or without angle brackets. Records of other software
// may have other IDs.
func ParseID(s string) (ID, error) {
	var id ID
	digits, ok := strings.CutPrefix(strings.Trim(s, "<>"), idPrefix)
	digits = strings.ReplaceAll(digits, "-", "")
	if !ok || len(digits) != 2*len(id) {
		return ID{}, fmt.Errorf("record ID %.60q is not a UUID", s)
	}
	if _, err := hex.Decode(id[:], []byte(digits)); err != nil {
		return ID{}, fmt.Errorf("record ID %.60q is not a UUID: %w", s, err)
	}
	return id, nil
}

// ErrExchange reports an exchange that cannot be written as a record: an error of the caller, not
// of the disk.
var ErrExchange = errors.New("not an archivable exchange")

// headEnd ends an HTTP head.
var headEnd = []byte("\r\n\r\n")

func (x *Exchange) check() error {
	switch {
	case x.URL == "" || hasControl(x.URL):
		return fmt.Errorf("%w: URL %q", ErrExchange, x.URL)
	case !bytes.HasSuffix(x.ResponseHead, headEnd):
		return fmt.Errorf("%w: %s: response head is incomplete", ErrExchange, x.URL)
	case hasControl(x.IP) || hasControl(x.Protocol) || hasControl(x.Truncated):
		return fmt.Errorf("%w: %s: control character in a field", ErrExchange, x.URL)
	case x.NotModified && x.RevisitOf == nil:
		return fmt.Errorf("%w: %s: NotModified without RevisitOf", ErrExchange, x.URL)
	case x.RevisitOf != nil && hasControl(x.RevisitOf.URL):
		return fmt.Errorf("%w: %s: control character in RevisitOf", ErrExchange, x.URL)
	}
	return nil
}

// hasControl reports characters that would break a header line.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}

// statusOf returns the three digits of a status line, or "-".
func statusOf(head []byte) string {
	line, _, _ := bytes.Cut(head, []byte("\n"))
	_, rest, _ := bytes.Cut(line, []byte(" "))
	if len(rest) < 3 {
		return "-"
	}
	for _, c := range rest[:3] {
		if c < '0' || c > '9' {
			return "-"
		}
	}
	return string(rest[:3])
}

// UnknownMIME is the type in an index of a response without a valid one.
const UnknownMIME = "unk"

// mimeOf returns the media type of a response without parameters, or UnknownMIME.
func mimeOf(head []byte) string {
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(name, []byte("Content-Type")) {
			continue
		}
		if i := bytes.IndexAny(value, ";,"); i >= 0 { // a comma joins repeated headers
			value = value[:i]
		}
		value = bytes.ToLower(bytes.TrimSpace(value))
		if len(value) == 0 || hasControl(string(value)) {
			return UnknownMIME
		}
		return string(value)
	}
	return UnknownMIME
}

// maxDetail limits a value of Details in bytes.
const maxDetail = 2048

// detailsOf returns the properties of a response in an index, besides its type.
func detailsOf(head []byte) (d Details) {
	for line := range bytes.Lines(head) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case !ok || len(value) > maxDetail || hasControl(string(value)) || !utf8.Valid(value):
		case bytes.EqualFold(name, []byte("Content-Type")) && d.Charset == "":
			if _, params, err := mime.ParseMediaType(string(value)); err == nil {
				d.Charset = strings.ToLower(params["charset"])
			}
		case bytes.EqualFold(name, []byte("Location")) && d.Redirect == "" && bytes.HasPrefix(head[bytes.IndexByte(head, ' ')+1:], []byte("3")):
			d.Redirect = string(value)
		}
	}
	return d
}

// Warcinfo returns the first record of the file of that name, which has no field with its name if
// that is empty. Of c it reads the compression, the prefix and the fields of the record.
func Warcinfo(c Config, name string, now time.Time) []byte {
	e := NewEncoder(c.Compression)
	s := e.scratch.Get().(*scratch)
	for _, f := range []Field{
		{"software", c.Software},
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
		{"robots", "classic"}, // robots.txt is obeyed; the standard has no other value
		{"http-header-user-agent", c.UserAgent},
		{"hostname", c.Hostname},
		{"operator", c.Operator},
		{"isPartOf", c.Prefix},
	} {
		if f.Value != "" {
			s.block = appendField(s.block, f.Name, f.Value)
		}
	}
	var m Members
	s.begin(TypeWarcinfo, newID(), now)
	if name != "" {
		s.field("WARC-Filename", name)
	}
	s.field("Content-Type", contentTypeFields)
	s.finish(&m, s.packs, s.block, nil)
	return bytes.Clone(m.data)
}

// packer compresses one record after the other: begin, then writes, up to Close.
type packer interface {
	// begin starts a record of size bytes, written to dst.
	begin(dst io.Writer, size int64)
	io.WriteCloser
}

// newPackers returns a packer, and one for records too short to compress.
func newPackers(c Compression) (packs, stores packer) {
	switch c {
	case None:
		return &plainPacker{}, &plainPacker{}
	case Zstd:
		z := newZstdPacker()
		return z, z
	}
	return newGzipPacker(gzip.BestSpeed), newGzipPacker(gzip.NoCompression)
}

type plainPacker struct{ io.Writer }

func (p *plainPacker) begin(dst io.Writer, _ int64) { p.Writer = dst }

// Close implements io.Closer.
func (*plainPacker) Close() error { return nil }

// gzipPacker writes each record as a member. Requests are stored: half of such a record is
// incompressible digests and IDs, and the fixed cost of compressing a member equals three
// kilobytes.
type gzipPacker struct{ *gzip.Writer }

func newGzipPacker(level int) gzipPacker {
	z, _ := gzip.NewWriterLevel(nil, level) // the levels are valid, so there is no error
	return gzipPacker{z}
}

func (p gzipPacker) begin(dst io.Writer, _ int64) { p.Reset(dst) }

// zstdPacker writes each record as a frame, with its size and a checksum, which the specification
// requires (WARC zstd 1.0, Zstandard frames).
type zstdPacker struct{ *zstd.Encoder }

func newZstdPacker() zstdPacker {
	// The options are valid, so there is no error.
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true),
		zstd.WithWindowSize(ownWindow), zstd.WithLowerEncoderMem(true))
	return zstdPacker{z}
}

func (p zstdPacker) begin(dst io.Writer, size int64) { p.ResetContentSize(dst, size) }
