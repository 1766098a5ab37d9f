package link

import (
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
