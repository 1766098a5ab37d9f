package job

import (
	"fmt"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// Scope is the set of hosts that a job may visit. The zero Scope is empty. It is immutable, and
// safe for concurrent use.
type Scope struct {
	exact    map[string]struct{} // hosts with their port, and names
	suffixes []string            // ".example.org" of "*.example.org"
	globs    []string
	all      bool
}

// NewScope compiles host patterns. In a pattern * matches any characters and ? one; *.example.org
// matches the hosts below example.org but not itself. A pattern without a port admits the host at
// every port.
func NewScope(patterns []string) (*Scope, error) {
	s := &Scope{exact: make(map[string]struct{}, len(patterns))}
	for _, pattern := range patterns {
		if err := s.add(pattern); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Scope) add(pattern string) error {
	pattern = strings.TrimSpace(strings.ToLower(pattern))
	rest, wild := strings.CutPrefix(pattern, "*.")
	switch {
	case pattern == "" || strings.ContainsAny(pattern, "/ \t@"):
		return fmt.Errorf("scope %.80q: want a host, such as a.example or *.example", pattern)
	case pattern == "*":
		s.all = true
	case !strings.ContainsAny(pattern, "*?"):
		host, err := canonicalHost(pattern)
		if err != nil {
			return fmt.Errorf("scope %.80q: %w", pattern, err)
		}
		s.exact[host] = struct{}{}
	case wild && !strings.ContainsAny(rest, "*?:"):
		host, err := canonicalHost(rest)
		if err != nil {
			return fmt.Errorf("scope %.80q: %w", pattern, err)
		}
		s.suffixes = append(s.suffixes, "."+host)
	default:
		s.globs = append(s.globs, pattern)
	}
	return nil
}

func canonicalHost(host string) (string, error) {
	scheme := "http://"
	if strings.HasSuffix(host, ":443") {
		scheme = "https://"
	}
	url, err := link.Canonical(scheme + host + "/")
	if err != nil {
		return "", err
	}
	return link.Host(url), nil
}

// Admits reports whether the scope admits a canonical host. Hosts without wildcards need one map
// lookup.
func (s *Scope) Admits(host string) bool {
	if s.all {
		return true
	}
	if _, ok := s.exact[host]; ok {
		return true
	}
	name := stripPort(host)
	if len(name) != len(host) {
		if _, ok := s.exact[name]; ok {
			return true
		}
	}
	for _, suffix := range s.suffixes {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	for _, glob := range s.globs {
		if matchGlob(glob, host) || len(name) != len(host) && matchGlob(glob, name) {
			return true
		}
	}
	return false
}

// stripPort returns the host without its port.
func stripPort(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > strings.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// matchGlob matches with one backtracking point, so its cost is at most len(glob) x len(s) even for
// an untrusted pattern.
func matchGlob(glob, s string) bool {
	g, i, star, from := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case g < len(glob) && glob[g] == '*':
			star, from = g, i
			g++
		case g < len(glob) && (glob[g] == '?' || glob[g] == s[i]):
			g++
			i++
		case star >= 0:
			from++
			g, i = star+1, from
		default:
			return false
		}
	}
	return strings.Trim(glob[g:], "*") == ""
}
