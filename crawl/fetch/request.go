package fetch

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// DefaultAccept is the Accept field of a Request without one.
const DefaultAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// acceptEncoding lists the supported content codings.
const acceptEncoding = "gzip, br, zstd"

// maxURL bounds a request's URL; longer ones are crawler traps.
const maxURL = 16 << 10

// Request describes a request. It is not modified and may be reused.
type Request struct {
	// URL is an absolute http or https URL in canonical form; a fragment is not sent.
	URL string
	// Accept replaces DefaultAccept.
	Accept string
	// Header are additional fields, such as If-None-Match. Fields for framing or routing are rejected.
	Header http.Header
	// MaxBytes limits the body instead of the Config's MaxBody. Zero: MaxBody.
	MaxBytes int64
	// Cut returns the beginning of a body that exceeds its limit, marked as Truncated, instead of an
	// error.
	Cut bool
	// HeadWithin is the timeout for writing the request and receiving the whole response head, if it
	// is less than the default of 20 s. Zero: the default.
	HeadWithin time.Duration
	// Once: a request that the server may have received is not sent a second time within the exchange,
	// which then ends with ErrStale, so that the caller can keep its delay.
	Once bool
	// Permit is called when the connection is ready, with its remote address, right before the request
	// is written, once for each time that it is written. Its error ends the exchange. Nil: permitted.
	// It must not block.
	Permit func(addr netip.Addr) error
	// Room, if not nil, provides the memory of a body over FreeBody. Nil: memory is not limited.
	Room Memory
	// Progress, if not nil, is updated while the exchange is under way. It is reset by each request.
	Progress *Progress
}

// target is a URL split into the parts that HTTP needs. All but key are substrings of the URL.
type target struct {
	https     bool
	key       string // scheme and authority: key of the pool
	authority string // host and port as in the URL: the Host field
	host      string // without port and brackets
	port      uint16
	path      string // path and query: the request target
}

// ownFields are set by the Fetcher alone, or would change the use of the connection.
var ownFields = map[string]bool{
	"Host": true, "User-Agent": true, "From": true, "Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Length": true,
	"Transfer-Encoding": true, "Te": true, "Trailer": true, "Upgrade": true, "Keep-Alive": true, "Proxy-Connection": true, "Expect": true,
	"Proxy-Authorization": true,
}

// parseTarget splits a URL without net/url, which rejects URLs that browsers, and so the canonical
// form, permit.
func parseTarget(raw string) (target, error) {
	var t target
	if len(raw) > maxURL {
		return t, fmt.Errorf("URL of %d bytes, at most %d", len(raw), maxURL)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return t, fmt.Errorf("invalid byte %#x in URL", raw[i])
		}
	}
	rest, ok := strings.CutPrefix(raw, "http://")
	if !ok {
		if rest, ok = strings.CutPrefix(raw, "https://"); !ok {
			return t, errors.New("URL scheme: must be http or https")
		}
		t.https = true
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	t.authority, t.path = rest[:end], rest[end:]
	t.key = raw[:len(raw)-len(t.path)]
	if i := strings.IndexByte(t.path, '#'); i >= 0 {
		t.path = t.path[:i]
	}
	if t.path == "" || t.path[0] != '/' {
		t.path = "/" + t.path
	}
	if strings.ContainsAny(t.authority, "@\\") || !httpguts.ValidHostHeader(t.authority) {
		return t, fmt.Errorf("invalid authority %q", t.authority)
	}
	return t, t.splitAuthority()
}

func (t *target) splitAuthority() error {
	host, port := t.authority, ""
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		host, port = host[:i], host[i+1:]
	}
	t.host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if t.host == "" {
		return fmt.Errorf("authority %q: missing host", t.authority)
	}
	if port == "" {
		t.port = 80
		if t.https {
			t.port = 443
		}
		return nil
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return fmt.Errorf("invalid port %q", port)
	}
	t.port = uint16(n)
	return nil
}

// checkHeader rejects fields that are set by the Fetcher or would break the message.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if ownFields[http.CanonicalHeaderKey(name)] || !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("field %q cannot be set", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("field %s: invalid value %q", name, v)
			}
		}
	}
	return nil
}

// appendHead appends the request head of HTTP/1.1, with private fields; for HTTP/2 it is the
// archived form of what was sent.
func (f *Fetcher) appendHead(out []byte, t *target, req *Request, private http.Header) []byte {
	out = append(out, "GET "...)
	out = append(out, t.path...)
	out = append(out, " HTTP/1.1\r\nHost: "...)
	out = append(out, t.authority...)
	out = append(out, f.fields...)
	out = append(out, "Accept: "...)
	out = append(out, accept(req)...)
	out = append(out, "\r\n"...)
	for i, h := range []http.Header{req.Header, private} {
		if len(h) == 0 {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(h)) {
			if i == 0 && private[name] != nil {
				continue // replaced by the host's own
			}
			for _, v := range h[name] {
				out = append(append(append(append(out, name...), ": "...), v...), "\r\n"...)
			}
		}
	}
	return append(out, "\r\n"...)
}

func accept(req *Request) string {
	if req.Accept == "" {
		return DefaultAccept
	}
	return req.Accept
}

// fixedFields returns the constant fields of all requests, from the end of Host's line on.
func fixedFields(c *Config) string {
	from := ""
	if c.From != "" {
		from = "From: " + c.From + "\r\n"
	}
	return "\r\nUser-Agent: " + c.UserAgent + "\r\n" + from + "Accept-Encoding: " + acceptEncoding + "\r\n"
}
