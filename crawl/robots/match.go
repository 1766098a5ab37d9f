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
