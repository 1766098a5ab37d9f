package warc

import (
	"errors"
	"fmt"
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
	// ProfileIdenticalDigest says of a revisit that its body is the one of the record it refers to.
	ProfileIdenticalDigest = "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"

	contentTypeResponse = "application/http; msgtype=response"
	contentTypeRequest  = "application/http; msgtype=request"
	contentTypeFields   = "application/warc-fields"
)

// Exchange is one request and its response, to be archived. The slices are only read, and not kept.
type Exchange struct {
	// URL is the canonical URL, without control characters, since it becomes a header line.
	URL string
	// Date is when the request was sent.
	Date time.Time
	// IP is the address that answered. Empty when unknown.
	IP string
	// Protocol is the WARC-Protocol, such as "http/1.1" or "h2". Empty when unknown.
	Protocol string

	// Request is the head of the request with its closing empty line. Empty when it is not known; then no request
	// record is written.
	Request []byte
	// ResponseHead is the status line and header of the response with their closing empty line, as received.
	ResponseHead []byte
	// Body is the body without transfer coding (chunks joined).
	Body []byte
	// Decoded says that the content coding (gzip, br, zstd) was undone too. The fields of the head that no longer
	// describe Body are then archived under X-Orig- names, so that nobody decodes it again.
	Decoded bool
	// PayloadDigest is the SHA-256 of Body, also of a revisit, whose Body is not written.
	PayloadDigest [32]byte
	// Truncated says why Body is cut short: "length", "time", "disconnect" or "unspecified". Empty when it is whole.
	Truncated string
	// RevisitOf is where the same body was archived before. It makes the record a revisit. Nil makes it a response.
	RevisitOf *Original

	// Outlinks are the links found in the body, canonical, each once.
	Outlinks []string
	// Fields go into the metadata record before the outlinks, such as via, hopsFromSeed, fetchTimeMs.
	Fields []Field
}

// Field is a named value of a header or of a metadata record.
type Field struct{ Name, Value string }

// Original is the record that a revisit refers to.
type Original struct {
	URL      string
	Date     time.Time
	RecordID string // urn:uuid:..., empty when unknown
}

// Ref says where an exchange lies in the archive.
type Ref struct {
	File     string // name of the finished file, without its directory
	Offset   int64  // of the response or revisit record, in bytes
	RecordID string // urn:uuid:...
}

// ErrExchange says that an exchange cannot be written as a record. It is the caller's fault, not that of the disk.
var ErrExchange = errors.New("not an archivable exchange")

func (x *Exchange) check() error {
	switch {
	case x.URL == "" || hasControl(x.URL):
		return fmt.Errorf("%w: URL %q", ErrExchange, x.URL)
	case len(x.ResponseHead) == 0:
		return fmt.Errorf("%w: %s: no response head", ErrExchange, x.URL)
	case hasControl(x.IP) || hasControl(x.Protocol) || hasControl(x.Truncated):
		return fmt.Errorf("%w: %s: control character in a field", ErrExchange, x.URL)
	case x.RevisitOf != nil && (hasControl(x.RevisitOf.URL) || hasControl(x.RevisitOf.RecordID)):
		return fmt.Errorf("%w: %s: control character in what it revisits", ErrExchange, x.URL)
	}
	return nil
}

// hasControl finds what would break a header line.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
