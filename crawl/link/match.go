package link

import "strings"

// MatchPath reports whether a path with its query matches a pattern of the syntax of robots.txt
// (RFC 9309, 2.2.3): a prefix, where * matches any characters, and $ at the end the end. It
// backtracks to one position only, so its cost is bounded by the product of the lengths.
func MatchPath(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	p, i, star, from := 0, 0, -1, 0
	for p < len(pattern) || whole && i < len(path) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, i
			p++
		case p < len(pattern) && i < len(path) && pattern[p] == path[i]:
			p++
			i++
		case star >= 0 && from < len(path):
			from++
			p, i = star+1, from
		default:
			return false
		}
	}
	return true
}
