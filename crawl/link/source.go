package link

import (
	"math"
	"strconv"
	"strings"
)

// Source is a page that led to other URLs.
type Source struct {
	URL  string // canonical
	Path string // hop path of the page, see PathTo
	Seed string // of the page, canonical; empty: it and Path are unknown
	Role Role
}

// Role is what a source was, if the hop paths of its links depend on it. Part of the wire and the
// disk format.
type Role uint8

const (
	// RolePage is a page of any other role.
	RolePage Role = iota
	// RoleSitemap is a sitemap.
	RoleSitemap
	// RoleRedirect is a redirect.
	RoleRedirect
)

const (
	// MaxSource is the maximum length of the URL and the seed of a source in bytes. Links of a page
	// with a longer one have no source.
	MaxSource = 2048
	// MaxPath is the maximum length of a hop path in bytes, maxHops that of its letters.
	MaxPath = 64
	maxHops = 50
)

// Hop returns the letter of a URL of a kind that the source led to, as in Heritrix: L link, E page
// requisite, R redirect, M sitemap or entry of one, P robots.txt.
func (s *Source) Hop(kind Kind) byte {
	switch {
	case kind == KindRobots:
		return 'P'
	case s.Role == RoleRedirect:
		return 'R'
	case kind == KindRequisite:
		return 'E'
	case s.Role == RoleSitemap || kind == KindSitemap:
		return 'M'
	default:
		return 'L'
	}
}

// PathTo returns the hop path of a URL of a kind that the source led to: a letter for each hop from
// the seed; of more than 50, the number of those omitted, "+", and the last 50. It is empty if that
// of the source is unknown.
func (s *Source) PathTo(kind Kind) string {
	if s.Seed == "" {
		return ""
	}
	n, letters, _ := splitPath(s.Path)
	letters += string(rune(s.Hop(kind)))
	if over := len(letters) - maxHops; over > 0 {
		n, letters = min(n+uint64(over), math.MaxUint32), letters[over:]
	}
	if n > 0 {
		return strconv.FormatUint(n, 10) + "+" + letters
	}
	return letters
}

// splitPath splits a hop path into the number of omitted letters and the others.
func splitPath(path string) (omitted uint64, letters string, err error) {
	text, letters, cut := strings.Cut(path, "+")
	if !cut {
		return 0, path, nil
	}
	omitted, err = strconv.ParseUint(text, 10, 32)
	return omitted, letters, err
}

// Provenance returns how a URL with a source was found: the URL and seed of the source, and the hop
// path. Without a source it is a seed if nothing else can be at its place, or unknown.
func Provenance(from *Source, url string, kind Kind, depth uint32, hops uint8) (via, path, seed string) {
	switch {
	case from != nil:
		return from.URL, from.PathTo(kind), from.Seed
	case depth == 0 && hops == 0 && kind == KindPage:
		return "", "", url
	default:
		return "", "", ""
	}
}

// Valid reports whether the lengths and the hop path of a source are valid; URLs are not parsed.
func (s *Source) Valid() bool {
	_, letters, err := splitPath(s.Path)
	return err == nil && strings.Trim(letters, "LERXPM") == "" && len(letters) <= maxHops && len(s.Path) <= MaxPath &&
		s.URL != "" && len(s.URL) <= MaxSource && len(s.Seed) <= MaxSource && s.Role <= RoleRedirect
}

// Len returns the length of the texts of a source in bytes; 0 for nil.
func (s *Source) Len() int {
	if s == nil {
		return 0
	}
	return len(s.URL) + len(s.Path) + len(s.Seed)
}

// Canonical reports whether the URLs of a source are canonical.
func (s *Source) Canonical() bool {
	for _, url := range []string{s.URL, s.Seed} {
		if canonical, err := Canonical(url); url != "" && (err != nil || canonical != url) {
			return false
		}
	}
	return true
}
