package robots

import (
	"strings"
	"unsafe"
)

// rule is one compiled pattern: the literal that a path must begin with, then literals that must follow in this order with anything
// between them, and whether the path must end there.
type rule struct {
	text     string   // the normalised pattern
	head     string   // the literal before the first *
	segments []string // the literals after each *
	length   int      // the pattern's length in octets, by which rules are ranked
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

// compile reads a pattern. A pattern that can match nothing is no rule.
func compile(pattern string, allow bool) (rule, bool) {
	if pattern == "" || pattern[0] != '/' && pattern[0] != '*' {
		return rule{}, false
	}
	text := normalize(pattern, true)
	r := rule{text: text, length: len(text), allow: allow}
	body, anchored := strings.CutSuffix(text, "$")
	r.anchored = anchored
	head, rest, wild := strings.Cut(body, "*")
	r.head = head
	if wild {
		r.segments = strings.Split(rest, "*")
	}
	return r, true
}

// matches reports whether the pattern matches the whole of path or, unless anchored, its beginning. Taking each literal at its first
// place after the one before never loses a match, so there is no going back: the cost is linear in the path for each literal.
func (r *rule) matches(path string) bool {
	if !strings.HasPrefix(path, r.head) {
		return false
	}
	rest := path[len(r.head):]
	if len(r.segments) == 0 {
		return !r.anchored || rest == ""
	}
	last := len(r.segments) - 1
	for i, literal := range r.segments {
		if i == last && r.anchored {
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

// Allowed reports whether the rules admit a URL, given as its path and query. What is empty counts as "/", a fragment is passed over.
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
