package robots

import (
	"strings"
	"unsafe"
)

// rule is one pattern: a literal that a path must begin with, then, after each *, literals that
// must follow in this order with anything between them, and whether the path must end there. It is
// stored as text, as a site may have tens of thousands.
type rule struct {
	text     string // the normalized pattern, without a final $
	allow    bool
	anchored bool // the pattern ends in $
}

const ruleSize = int(unsafe.Sizeof(rule{}))

// rank puts Allow before Disallow among patterns of one length (RFC 9309, section 2.2.2).
func (r *rule) rank() int {
	if r.allow {
		return 0
	}
	return 1
}

// compile parses a pattern. It returns false for one that cannot match.
func compile(pattern string, allow bool) (rule, bool) {
	if pattern == "" || pattern[0] != '/' && pattern[0] != '*' {
		return rule{}, false
	}
	text, anchored := strings.CutSuffix(normalize(pattern, true), "$")
	return rule{text: text, allow: allow, anchored: anchored}, true
}

// length returns the pattern's length in octets, by which rules are ranked.
func (r *rule) length() int {
	if r.anchored {
		return len(r.text) + 1
	}
	return len(r.text)
}

// matches reports whether the pattern matches the whole of path or, unless anchored, its beginning.
// Matching each literal at its first position after the previous one is sufficient, so there is no
// backtracking: the cost is linear in the path for each literal.
func (r *rule) matches(path string) bool {
	literal, more, wild := strings.Cut(r.text, "*")
	rest, ok := strings.CutPrefix(path, literal)
	if !ok {
		return false
	}
	if !wild {
		return !r.anchored || rest == ""
	}
	for wild {
		literal, more, wild = strings.Cut(more, "*")
		if !wild && r.anchored {
			return strings.HasSuffix(rest, literal)
		}
		at := strings.Index(rest, literal)
		if at < 0 {
			return false
		}
		rest = rest[at+len(literal):]
	}
	return true
}

// Allowed reports whether the rules allow a URL, given as its path and query. An empty one counts
// as "/", a fragment is ignored.
func (r *Rules) Allowed(pathQuery string) bool {
	if r == nil || len(r.rules) == 0 {
		return true
	}
	if i := strings.IndexByte(pathQuery, '#'); i >= 0 {
		pathQuery = pathQuery[:i]
	}
	if pathQuery == "" || pathQuery[0] != '/' {
		pathQuery = "/" + pathQuery
	}
	path := normalize(pathQuery, false)
	if path == "/robots.txt" {
		return true
	}
	for i := range r.rules {
		if r.rules[i].matches(path) {
			return r.rules[i].allow
		}
	}
	return true
}

const hexDigits = "0123456789ABCDEF"

// Classes of an octet in a path.
const (
	keep   = iota // unchanged
	encode        // written as %XX
	check         // handled by special: %, * and $
)

// octets classifies each octet: those of RFC 3986's unreserved and reserved sets are unchanged.
var octets = func() (table [256]uint8) {
	for c := range table {
		table[c] = encode
	}
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~:/?#[]@!&'()+,;=" {
		table[c] = keep
	}
	for _, c := range "%*$" {
		table[c] = check
	}
	return table
}()

// normalize returns the form in which paths and patterns are compared: %XX in upper case,
// unreserved octets decoded, octets outside the URL alphabet encoded. In a path, * and $ are
// encoded, because they are ordinary there; in a pattern, * stays a wildcard and a final $ the
// anchor. A % that begins no escape is encoded too, so that the result is a fixed point.
func normalize(s string, pattern bool) string {
	for i := range len(s) {
		if octets[s[i]] != keep {
			return normalizeFrom(s, i, pattern)
		}
	}
	return s
}

func normalizeFrom(s string, start int, pattern bool) string {
	out := make([]byte, start, len(s)+16)
	copy(out, s[:start])
	for i := start; i < len(s); i++ {
		c := s[i]
		switch octets[c] {
		case keep:
			out = append(out, c)
		case encode:
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		default:
			var skip int
			out, skip = special(out, s, i, pattern)
			i += skip
		}
	}
	return string(out)
}

// special appends the octet at i, a %, * or $, and returns how many octets after it are consumed.
func special(out []byte, s string, i int, pattern bool) ([]byte, int) {
	c := s[i]
	if c == '%' {
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return append(out, "%25"...), 0
		}
		octet := unhex(s[i+1])<<4 | unhex(s[i+2])
		if isUnreserved(octet) {
			return append(out, octet), 2
		}
		return append(out, '%', hexDigits[octet>>4], hexDigits[octet&15]), 2
	}
	if pattern && (c == '*' || i == len(s)-1) {
		return append(out, c), 0
	}
	return append(out, '%', hexDigits[c>>4], hexDigits[c&15]), 0
}

func isUnreserved(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
