package link

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
)

// Link is one URL found in a document.
type Link struct {
	// URL is canonical.
	URL string
	// Kind determines how its answer will be parsed.
	Kind Kind
	// Nofollow: all links to the URL were marked nofollow.
	Nofollow bool
	// Modified is when a sitemap or feed states that the URL changed last, in Unix seconds; 0:
	// unknown.
	Modified uint32
}

// Kind is how a URL was found, which determines how its answer is parsed. Part of the wire and the
// disk format.
type Kind uint8

const (
	// KindPage is a document whose links are extracted.
	KindPage Kind = iota
	// KindSitemap is a sitemap or sitemap index: its entries are links of its own depth plus one.
	KindSitemap
	// KindRequisite is an image, script, style sheet or the like: archived, and extracted for
	// further requisites if it is a style sheet.
	KindRequisite
	// KindRobots is a robots.txt requested by the owner of another host's redirect chain.
	KindRobots
)

// String returns the name of the kind in exports.
func (k Kind) String() string {
	names := [...]string{"page", "sitemap", "requisite", "robots"}
	if int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Hash returns the first eight bytes, big-endian, of SHA-256(job || url). IDs of jobs are random,
// so an attacker cannot prepare colliding URLs. It does not allocate.
func Hash(job [16]byte, url string) uint64 {
	var buf [16 + 496]byte
	if len(url) > len(buf)-len(job) {
		return hashLong(job, url)
	}
	n := copy(buf[:], job[:])
	n += copy(buf[n:], url)
	sum := sha256.Sum256(buf[:n])
	return binary.BigEndian.Uint64(sum[:])
}

// hashLong is Hash for the rare long URL, which needs a large buffer.
func hashLong(job [16]byte, url string) uint64 {
	var array [16 + MaxURL]byte
	buf := append(append(array[:0], job[:]...), url...)
	sum := sha256.Sum256(buf)
	return binary.BigEndian.Uint64(sum[:])
}

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

// WithScheme adds http:// to a URL without a scheme, such as example.org.
func WithScheme(u string) string {
	u = strings.TrimSpace(u)
	if !strings.Contains(u, "://") {
		return "http://" + u
	}
	return u
}
