package warc

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
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
)

const (
	version = "WARC/1.1"
	// ProfileIdenticalDigest is the profile of a revisit with the same body as its original.
	ProfileIdenticalDigest = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

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
