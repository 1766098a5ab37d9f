package fetch

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/apoidea/apoidea/crawl/link"
)

// Response is the answer to a Request. Its byte slices are valid until Release.
type Response struct {
	// URL is that of the request.
	URL string
	// Status is the status code, Proto "HTTP/1.1", "HTTP/1.0" or "HTTP/2.0" as used on the wire.
	Status int
	Proto  string // as used on the wire
	// Header are the fields as received, names in canonical form.
	Header http.Header
	// RequestHead and ResponseHead are the heads for the archive, with the empty line. RequestHead is
	// what was sent, for HTTP/2 in the form of HTTP/1.1. ResponseHead matches Body, see the package
	// comment.
	RequestHead, ResponseHead []byte
	// Body is decoded as far as possible. Truncated is why it is incomplete.
	Body      []byte
	Truncated Truncation // why Body is incomplete; empty: it is complete
	// ContentEncoding lists the codings that were removed, as "gzip" or "gzip, br"; empty if none.
	ContentEncoding string
	// WireBytes is the number of bytes received in the exchange, with head and framing, without the
	// TLS handshake.
	WireBytes int64
	// Addr is the remote address of the connection.
	Addr netip.AddrPort
	// Connect is the duration of the TCP connect, without the TLS handshake: a round trip to the
	// server, and local delays.
	Connect time.Duration
	// Start is when the request was written, TTFB the time from then to the first byte of the response
	// (with HTTP/2 its head), Duration to the last byte of the body.
	Start    time.Time
	TTFB     time.Duration // from Start to the first byte of the response
	Duration time.Duration // from Start to the last byte of the body
	// Held is the part of Duration for which the bandwidth limit delayed the exchange.
	Held time.Duration

	scratch *scratch
}

// Truncation is why a body is incomplete, with the values of WARC-Truncated (WARC 1.1, 5.13).
type Truncation string

// The reasons. Empty: the body is complete.
const (
	// TruncatedLength: the size limit was reached (Request.Cut).
	TruncatedLength Truncation = "length"
	// TruncatedDisconnect: the connection ended before the body did.
	TruncatedDisconnect Truncation = "disconnect"
	// TruncatedTime: a timeout or the minimum rate was reached.
	TruncatedTime Truncation = "time"
	// TruncatedUnspecified: the body ends within its chunks or its content coding.
	TruncatedUnspecified Truncation = "unspecified"
)

// Location returns the Location field of a redirect, or "". Bytes that are not UTF-8 are
// percent-encoded: link.EscapeInvalid.
func (r *Response) Location() string {
	if r.Status < 300 || r.Status > 399 {
		return ""
	}
	return link.EscapeInvalid(r.Header.Get("Location"))
}

// Release returns the buffers to their pool. Body and both heads must not be used afterwards. It
// may be called once; a Response that is never released is only garbage.
func (r *Response) Release() {
	if r.scratch == nil {
		return
	}
	s := r.scratch
	r.scratch, r.Body, r.RequestHead, r.ResponseHead = nil, nil, nil, nil
	s.put()
}

// Limits of the buffers that are kept for the next exchange, so that a large page does not occupy
// memory for long.
const (
	readBuffer  = 4 << 10
	maxKeptBody = FreeBody + 1
	maxKeptHead = 16 << 10
)

// scratch holds the buffers of one exchange.
type scratch struct {
	reader   *bufio.Reader
	wire     wire
	request  []byte
	head     []byte // the response head as received
	fields   []field
	response []byte
	body     []byte
	packed   []byte        // first bytes of an encoded body
	coded    *bufio.Reader // source of an encoded body
}

// field is one field of a response head as received.
type field struct{ name, value string }

var scratches = sync.Pool{New: func() any {
	return &scratch{reader: bufio.NewReaderSize(nil, readBuffer), coded: bufio.NewReaderSize(nil, readBuffer)}
}}

func newScratch() *scratch { return scratches.Get().(*scratch) }

// rest releases the connection: a response may wait for long, and a connection can hold megabytes
// of certificates.
func (s *scratch) rest() {
	s.reader.Reset(nil)
	s.wire = wire{}
}

func (s *scratch) put() {
	clear(s.fields)
	s.fields = s.fields[:0]
	if cap(s.body) > maxKeptBody {
		s.body = nil
	}
	if cap(s.head) > maxKeptHead || cap(s.response) > maxKeptHead || cap(s.request) > maxKeptHead {
		s.head, s.response, s.request = nil, nil, nil
	}
	scratches.Put(s)
}

// renamed is the prefix of fields that apply to the wire and not to the archived body.
const renamed = "X-Crawler-"

// appendResponseHead appends the head that matches the decoded body. Fields are those of the
// response in their order.
func appendResponseHead(out []byte, status int, reason string, fields []field, bodyLen int64, decoded bool) []byte {
	out = append(out, "HTTP/1.1 "...)
	out = strconv.AppendInt(out, int64(status), 10)
	out = append(out, ' ')
	out = appendValue(out, reason)
	out = append(out, "\r\n"...)
	lengthTold := false
	for _, f := range fields {
		switch {
		case strings.EqualFold(f.name, "Content-Length"):
			if n, err := strconv.ParseInt(f.value, 10, 64); err == nil && n == bodyLen && !lengthTold {
				lengthTold = true
				break
			}
			out = append(out, renamed...)
		case strings.EqualFold(f.name, "Transfer-Encoding"), decoded && strings.EqualFold(f.name, "Content-Encoding"):
			out = append(out, renamed...)
		}
		out = append(append(out, f.name...), ": "...)
		out = appendValue(out, f.value)
		out = append(out, "\r\n"...)
	}
	if !lengthTold {
		out = append(out, "Content-Length: "...)
		out = strconv.AppendInt(out, bodyLen, 10)
		out = append(out, "\r\n"...)
	}
	return append(out, "\r\n"...)
}

// appendValue appends a value, replacing line ends and invalid bytes.
func appendValue(out []byte, v string) []byte {
	start := len(out)
	out = append(out, v...)
	for i := start; i < len(out); i++ {
		if c := out[i]; c < ' ' && c != '\t' || c == 0x7f {
			out[i] = ' '
		}
	}
	return out
}

// MaxRetryAfter is the upper limit of a site's Retry-After.
const MaxRetryAfter = 24 * time.Hour

// RetryAfter returns the delay after now that the Retry-After field requests, in seconds or as a
// date: between 0 and MaxRetryAfter, 0 also if it is missing or invalid. A fraction of a second,
// which is not standard, is rounded up.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	v := strings.TrimSpace(h.Get("Retry-After"))
	whole, fraction, _ := strings.Cut(v, ".")
	n, err := strconv.ParseUint(whole, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) { // any number of digits is valid (RFC 9110, 10.2.3)
		if n < 1<<63 && strings.Trim(fraction, "0") != "" {
			n++
		}
		return time.Duration(min(n, uint64(MaxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter)
}

// HostFields are request fields by the origin that they are sent to, such as https://a.example.
// They may contain passwords, so they are sent to no other server, and archived only if requested.
type HostFields map[string]http.Header

// Add parses "HOST: Name: value". The field is sent to HOST over https only, or over http only
// where HOST begins with http://.
func (h HostFields) Add(text string) error {
	host, field, ok := strings.Cut(text, ": ")
	name, value, also := strings.Cut(field, ":")
	if !ok || !also {
		return errors.New("must be HOST: Name: value")
	}
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	url, err := link.Canonical(host)
	switch {
	case err != nil:
		return fmt.Errorf("host %q: %w", host, err)
	case link.PathQuery(url) != "/":
		return fmt.Errorf("host %q: must not have a path", host)
	}
	name, value = http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)
	switch {
	case !httpguts.ValidHeaderFieldName(name) || ownFields[name] && name != "Cookie":
		return fmt.Errorf("field %q cannot be set", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("field %s: invalid value", name)
	}
	origin := link.Origin(url)
	if h[origin] == nil {
		h[origin] = make(http.Header)
	}
	h[origin][name] = append(h[origin][name], value)
	return nil
}
