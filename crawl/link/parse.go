package link

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"golang.org/x/text/encoding/unicode"
)

var parser = whatwg.NewParser(whatwg.WithPreParseHostFunc(beforeHost))

// parse parses by the WHATWG standard, relative to base unless it is nil. Invalid UTF-8 counts as
// U+FFFD.
func parse(input string, base *whatwg.Url) (*whatwg.Url, error) {
	if !utf8.ValidString(input) {
		input, _ = unicode.UTF8.NewDecoder().String(input) // never fails: it inserts U+FFFD
	}
	if base == nil {
		return parser.Parse(input)
	}
	return base.Parse(input)
}

// appendParsed is the slow path for any URL: the parser, then the rules of Canonical.
func appendParsed(dst, raw []byte, base *whatwg.Url) ([]byte, error) {
	raw, err := shorten(raw)
	if err != nil {
		return dst, err
	}
	u, err := parse(string(raw), base)
	if err != nil {
		return dst, errSyntax
	}
	if u.Scheme() != "http" && u.Scheme() != "https" {
		return dst, errScheme
	}
	scheme, rest, ok := strings.Cut(u.Href(true), "://")
	if !ok {
		return dst, errSyntax
	}
	authority, tail := rest, "/"
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		authority, tail = rest[:i], rest[i:]
	}
	authority = authority[strings.LastIndexByte(authority, '@')+1:]
	out := append(append(dst, scheme...), "://"...)
	if out, err = appendHost(out, authority); err != nil {
		return dst, err
	}
	if !stable(scheme, out[len(dst)+len(scheme)+len("://"):]) {
		return dst, errHost
	}
	return bounded(dst, appendUnescaped(out, tail))
}

// appendUnescaped appends a parsed path and query with its escapes in canonical spelling.
func appendUnescaped(dst []byte, s string) []byte {
	lone := -3 // index in dst of the last percent sign that begins no escape
	for i := 0; i < len(s); {
		c, ok := unescape(s[i:])
		switch {
		case !ok:
			if s[i] == '%' {
				lone = len(dst)
			}
			dst = append(dst, s[i])
			i++
		case unreserved(c) && !completes(dst, lone, c):
			dst = append(dst, c)
			i += 3
		default:
			dst = append(dst, '%', upper(s[i+1]), upper(s[i+2]))
			i += 3
		}
	}
	return dst
}

// completes reports whether c, appended to dst, would complete an escape with the lone percent
// sign. It would be parsed as an escape the next time, and the form would not be canonical.
func completes(dst []byte, lone int, c byte) bool {
	if !isHex(c) {
		return false
	}
	switch len(dst) - lone {
	case 1:
		return true
	case 2:
		return isHex(dst[lone+1])
	default:
		return false
	}
}

// EscapeInvalid percent-encodes the non-ASCII bytes of a header's value that is not UTF-8, as
// browsers do for the Location field: in a URL they are the bytes that the server intends.
func EscapeInvalid(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var out []byte
	for _, c := range []byte(s) {
		if out = append(out, c); c >= utf8.RuneSelf {
			out = fmt.Appendf(out[:len(out)-1], "%%%02X", c)
		}
	}
	return string(out)
}

// The fast path appends the canonical form of common URLs: lower-case host names, plain path and
// query characters, whole escapes, dot segments. At anything else it stops (ok false) and
// appendParsed decides; a fuzz test checks that both agree.

// Classes of a byte in a path or query.
const (
	odd     = iota // for the parser
	plain          // unchanged
	slash          // ends a path segment
	query          // ends the path
	percent        // begins an escape
	hash           // ends the URL
)

var class = func() (t [256]uint8) {
	for c := range t {
		if unreserved(byte(c)) {
			t[c] = plain
		}
	}
	for _, c := range []byte("!$&()*+,;=:@") {
		t[c] = plain
	}
	t['/'], t['?'], t['%'], t['#'] = slash, query, percent, hash
	return t
}()

// unreserved reports whether c means the same escaped or not (RFC 3986, 2.3).
func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

// appendAuthority appends the authority; dst ends with the two slashes before it.
func appendAuthority(dst, s []byte) ([]byte, bool) {
	end := 0
	for end < len(s) && (s[end] >= 'a' && s[end] <= 'z' || s[end] >= '0' && s[end] <= '9' || s[end] == '-' || s[end] == '.') {
		end++
	}
	if !plainHost(s[:end]) {
		return dst, false
	}
	secure := dst[len(dst)-4] == 's' // of "https://"
	dst = append(dst, s[:end]...)
	s = s[end:]
	if len(s) > 0 && s[0] == ':' {
		var ok bool
		if dst, s, ok = appendPort(dst, s, secure); !ok {
			return dst, false
		}
	}
	root := len(dst)
	dst = append(dst, '/')
	if len(s) > 0 && s[0] == '/' {
		s = s[1:]
	} else if len(s) > 0 && s[0] != '?' && s[0] != '#' {
		return dst, false
	}
	return appendTail(dst, root, s)
}

// appendPort appends a plainly written port, s beginning with its colon, and returns the rest of s.
func appendPort(dst, s []byte, secure bool) (out, rest []byte, ok bool) {
	port, i := 0, 1
	for ; i < len(s) && i < 7 && '0' <= s[i] && s[i] <= '9'; i++ {
		port = port*10 + int(s[i]-'0')
	}
	if i == 1 || s[1] == '0' || port > 65535 || badPort(port) {
		return dst, s, false
	}
	if secure && port != 443 || !secure && port != 80 {
		dst = append(dst, s[:i]...)
	}
	return dst, s[i:], true
}

// appendTail appends path and query; dst ends with the slash before a segment, and dst[root] is the
// first slash of the path.
func appendTail(dst []byte, root int, s []byte) ([]byte, bool) {
	seg := len(dst)
	for i := 0; i < len(s); {
		j := i
		for j < len(s) && class[s[j]] == plain {
			j++
		}
		dst = append(dst, s[i:j]...)
		if i = j; i == len(s) {
			break
		}
		switch class[s[i]] {
		case slash:
			if isDots(dst[seg:]) {
				dst = cutDots(dst, root, seg)
			} else {
				dst = append(dst, '/')
			}
			seg = len(dst)
			i++
		case percent:
			var ok bool
			if dst, ok = appendEscape(dst, s[i:]); !ok {
				return dst, false
			}
			i += 3
		case query:
			if isDots(dst[seg:]) {
				dst = cutDots(dst, root, seg)
			}
			return appendQuery(dst, s[i:])
		case hash:
			s = s[:i]
		default:
			return dst, false
		}
	}
	if isDots(dst[seg:]) {
		dst = cutDots(dst, root, seg)
	}
	return dst, true
}

// isDots reports whether a path segment is . or .. .
func isDots(seg []byte) bool {
	return len(seg) > 0 && len(seg) <= 2 && seg[0] == '.' && seg[len(seg)-1] == '.'
}

// cutDots removes the dot segment that begins at seg, and the segment before it if it has two dots.
// The path then ends with a slash.
func cutDots(dst []byte, root, seg int) []byte {
	if len(dst)-seg == 2 && seg-1 > root {
		return dst[:root+bytes.LastIndexByte(dst[root:seg-1], '/')+1]
	}
	return dst[:seg]
}

// appendQuery appends a query with its question mark.
func appendQuery(dst, s []byte) ([]byte, bool) {
	for i := 0; i < len(s); {
		switch class[s[i]] {
		case plain, slash, query:
			dst = append(dst, s[i])
			i++
		case percent:
			var ok bool
			if dst, ok = appendEscape(dst, s[i:]); !ok {
				return dst, false
			}
			i += 3
		case hash:
			return dst, true
		default:
			return dst, false
		}
	}
	return dst, true
}

// appendEscape appends one whole escape in its canonical spelling. It leaves an escaped dot to the
// parser: it may be a dot segment.
func appendEscape(dst, s []byte) ([]byte, bool) {
	c, ok := unescape(s)
	if !ok || c == '.' {
		return dst, false
	}
	if unreserved(c) {
		return append(dst, c), true
	}
	return append(dst, '%', upper(s[1]), upper(s[2])), true
}

// unescape returns the byte of the escape at the front of s; ok is false without a whole escape.
func unescape[T string | []byte](s T) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' || !isHex(s[1]) || !isHex(s[2]) {
		return 0, false
	}
	return hexValue(s[1])<<4 | hexValue(s[2]), true
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F'
}

func hexValue(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c&0xf + 9
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'f' {
		return c - 'a' + 'A'
	}
	return c
}
