package fetch

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// DefaultAccept is what is accepted where a Request does not say.
const DefaultAccept = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// acceptEncoding are the content codings that can be removed.
const acceptEncoding = "gzip, br, zstd"

// maxURL bounds a request's URL; longer ones are traps.
const maxURL = 16 << 10

// Request is what to ask for. It is not changed and may be reused.
type Request struct {
	// URL is an absolute http or https URL in canonical form; what stands after # is not sent.
	URL string
	// Accept replaces DefaultAccept.
	Accept string
	// Header are further fields, such as If-None-Match. Those that frame or route the message are
	// refused.
	Header http.Header
	// MaxBytes bounds the body instead of the Config's MaxBody. Zero: that.
	MaxBytes int64
	// Cut asks for the beginning of a body that is over its bound, marked as Truncated, instead of
	// a failure.
	Cut bool
	// HeadWithin bounds writing the request and waiting for the whole response head, if it is less
	// than the Config's HeaderTimeout. Zero: that alone does.
	HeadWithin time.Duration
	// Once: a request that may have reached the server is not sent a second time within the
	// exchange, which then ends with ErrStale. Whoever is polite comes back later.
	Once bool
	// Permit is asked when the connection stands, with the address it leads to, right before the
	// request is written, once for each time that it is written. Its error ends the exchange. Nil:
	// permitted. It must not block.
	Permit func(addr netip.Addr) error
	// Room, if not nil, says whether a body over FreeBody may be in memory. Nil: it may, whatever
	// its size.
	Room Room
	// Progress, if not nil, is kept up to date while the exchange is under way. It begins anew with
	// each request.
	Progress *Progress
}

// target is a URL taken apart as far as HTTP needs it. All but key are parts of the URL's own
// string.
type target struct {
	https     bool
	key       string // scheme and authority, by which connections are kept
	authority string // host and port as they stand in the URL: the Host field
	host      string // without port and brackets
	port      uint16
	path      string // path and query: what is asked for
}

// ownFields are those that the Fetcher alone sets, or that would make the connection something
// else.
var ownFields = map[string]bool{
	"Host": true, "User-Agent": true, "From": true, "Accept": true, "Accept-Encoding": true, "Connection": true, "Content-Length": true,
	"Transfer-Encoding": true, "Te": true, "Trailer": true, "Upgrade": true, "Keep-Alive": true, "Proxy-Connection": true, "Expect": true,
	"Proxy-Authorization": true,
}

// parseTarget takes a URL apart without net/url, which refuses URLs that browsers, and so the
// canonical form, let pass.
func parseTarget(raw string) (target, error) {
	var t target
	if len(raw) > maxURL {
		return t, fmt.Errorf("URL of %d bytes, at most %d", len(raw), maxURL)
	}
	for i := range len(raw) {
		if raw[i] <= ' ' || raw[i] >= 0x7f {
			return t, fmt.Errorf("byte %#x in URL", raw[i])
		}
	}
	rest, ok := strings.CutPrefix(raw, "http://")
	if !ok {
		if rest, ok = strings.CutPrefix(raw, "https://"); !ok {
			return t, errors.New("neither an http nor an https URL")
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
		return t, fmt.Errorf("authority %q", t.authority)
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
		return fmt.Errorf("authority %q without a host", t.authority)
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
		return fmt.Errorf("port %q", port)
	}
	t.port = uint16(n)
	return nil
}

// serverName returns the name that the certificate must be for.
func (t *target) serverName() string { return strings.TrimSuffix(t.host, ".") }

func (t *target) address(addr netip.Addr) string {
	return net.JoinHostPort(addr.String(), strconv.Itoa(int(t.port)))
}

// checkHeader refuses fields that are none of the caller's business or would break the message.
func checkHeader(h http.Header) error {
	for name, values := range h {
		if ownFields[http.CanonicalHeaderKey(name)] || !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("field %q cannot be set", name)
		}
		for _, v := range values {
			if !httpguts.ValidHeaderFieldValue(v) {
				return fmt.Errorf("field %s: %q is no value", name, v)
			}
		}
	}
	return nil
}

// appendHead writes the request head as HTTP/1.1 has it, private fields with it; for HTTP/2 it is
// the archive's reading of what was sent.
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
				continue // the host's own replaces it
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

// fixedFields are the fields that are the same in all requests, from the end of Host's line on.
func fixedFields(c *Config) string {
	from := ""
	if c.From != "" {
		from = "From: " + c.From + "\r\n"
	}
	return "\r\nUser-Agent: " + c.UserAgent + "\r\n" + from + "Accept-Encoding: " + acceptEncoding + "\r\n"
}
