package job

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// HostDepth bounds the depth of URLs of the hosts that match a glob.
type HostDepth struct {
	Host  string // glob, as in a scope
	Depth uint32 // links from a seed
}

// maxFilterBytes and maxRegexpNodes bound the patterns of a job together, so that matching a URL
// takes milliseconds at most even with patterns of an untrusted peer.
const (
	maxFilterBytes = 4096
	maxRegexpNodes = 1000
)

// filter is a URL pattern: re:EXPRESSION, or a path as in robots.txt, optionally with hosts.
type filter struct {
	text  string
	hosts *Scope // nil: any host
	path  string
	expr  *regexp.Regexp
}

// Filters are URL patterns that a job includes or excludes. They are immutable, and safe for
// concurrent use.
type Filters []filter

// regexpMark is the prefix of regular expressions.
const regexpMark = "re:"

// NewFilters compiles patterns: /PATH or HOST/PATH as in robots.txt, or re:EXPRESSION.
func NewFilters(patterns []string) (Filters, error) {
	nodes := maxRegexpNodes
	return newFilters(patterns, &nodes)
}

// newFilters compiles a list of patterns; nodes is the remaining size for regular expressions.
func newFilters(patterns []string, nodes *int) (Filters, error) {
	var list Filters
	for _, text := range patterns {
		f, err := newFilter(text, nodes)
		if err != nil {
			return nil, fmt.Errorf("%.80q: %w", text, err)
		}
		list = append(list, f)
	}
	return list, nil
}

func newFilter(text string, nodes *int) (filter, error) {
	f := filter{text: text}
	if expr, ok := strings.CutPrefix(text, regexpMark); ok {
		tree, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			return f, err
		}
		if *nodes -= size(tree, *nodes); *nodes < 0 {
			return f, fmt.Errorf("the regular expressions of the job, with repetitions expanded, have more than %d parts", maxRegexpNodes)
		}
		f.expr, err = regexp.Compile(expr)
		return f, err
	}
	bare := text
	if _, rest, ok := strings.Cut(text, "://"); ok {
		bare = rest
	}
	host, path, ok := strings.Cut(bare, "/")
	if !ok {
		return f, errors.New("want /PATH for any host, HOST/PATH, or re:EXPRESSION; * matches any characters and $ the end, as in /*.pdf$")
	}
	if host != "" {
		var err error
		if f.hosts, err = NewScope([]string{host}); err != nil {
			return f, err
		}
	}
	url, err := link.Canonical("http://a.example/" + path)
	if err != nil {
		return f, err
	}
	f.path = link.PathQuery(url)
	return f, nil
}

// size counts the parts of a regular expression with its repetitions expanded, up to most.
func size(re *syntax.Regexp, most int) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		if n > most {
			return n
		}
		n += size(sub, most)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Max, re.Min, 1)
	}
	return n
}

// Match returns the first pattern that a canonical URL matches, or "".
func (list Filters) Match(url string) string {
	if len(list) == 0 {
		return ""
	}
	host, path := link.Host(url), link.PathQuery(url)
	for i := range list {
		f := &list[i]
		switch {
		case f.expr != nil:
			if f.expr.MatchString(url) {
				return f.text
			}
		case (f.hosts == nil || f.hosts.Admits(host)) && link.MatchPath(f.path, path):
			return f.text
		}
	}
	return ""
}

// compileFilters compiles the URL patterns and the host depths.
func (s *Spec) compileFilters() error {
	total, nodes := 0, maxRegexpNodes
	for _, list := range [][]string{s.Include, s.Exclude, s.First} {
		for _, text := range list {
			total += len(text)
		}
	}
	if total > maxFilterBytes {
		return fmt.Errorf("job spec: URL patterns of %d bytes together, at most %d", total, maxFilterBytes)
	}
	var err error
	if s.include, err = newFilters(s.Include, &nodes); err != nil {
		return fmt.Errorf("job spec: include %w", err)
	}
	if s.exclude, err = newFilters(s.Exclude, &nodes); err != nil {
		return fmt.Errorf("job spec: exclude %w", err)
	}
	if s.first, err = newFilters(s.First, &nodes); err != nil {
		return fmt.Errorf("job spec: first %w", err)
	}
	for _, d := range s.HostDepths {
		hosts, err := NewScope([]string{d.Host})
		if err != nil {
			return fmt.Errorf("job spec: max depth: %w", err)
		}
		s.depths = append(s.depths, hosts)
	}
	for _, seed := range s.Seeds {
		if text := s.exclude.Match(seed); text != "" {
			return fmt.Errorf("job spec: seed %.200q: excluded by %q", seed, text)
		}
	}
	return nil
}

// Filtered returns a short reason why the job's patterns exclude a canonical URL; empty if they do
// not. Include patterns apply to links to pages: seeds and their redirects (which are at depth 0),
// sitemaps and page requisites are exempt. URLs that match an exclude pattern are not fetched,
// except robots.txt.
func (s *Spec) Filtered(url string, depth uint32, kind link.Kind) string {
	if kind == link.KindRobots {
		return ""
	}
	if text := s.exclude.Match(url); text != "" {
		return fmt.Sprintf("excluded by %q", text)
	}
	if len(s.include) > 0 && depth > 0 && kind == link.KindPage && s.include.Match(url) == "" {
		return "matches no include pattern of the job"
	}
	return ""
}

// BoundsDepth reports whether the job has any depth limit.
func (s *Spec) BoundsDepth() bool { return s.HasMaxDepth || len(s.depths) > 0 }

// AdmitsDepth reports whether a URL of that depth is crawled at a canonical host.
func (s *Spec) AdmitsDepth(host string, depth uint32) bool {
	if depth == 0 {
		return true
	}
	for i, hosts := range s.depths {
		if hosts.Admits(host) {
			return depth <= s.HostDepths[i].Depth
		}
	}
	return !s.HasMaxDepth || depth <= s.MaxDepth
}
