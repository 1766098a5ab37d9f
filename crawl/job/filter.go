package job

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/apoidea/apoidea/crawl/link"
)

// HostDepth bounds how far from a seed URLs of the hosts that match a glob may be.
type HostDepth struct {
	Host  string // as in a scope
	Depth uint32 // links from a seed
}

// maxFilterBytes and maxRegexpNodes bound the patterns of a job together, so that a URL costs
// milliseconds at the most whatever a stranger's patterns are.
const (
	maxFilterBytes = 4096
	maxRegexpNodes = 1000
)

// filter is a pattern of URLs: RE:EXPRESSION, or a path as in robots.txt with the hosts before it
// that it holds for.
type filter struct {
	text  string
	hosts *Scope // nil: any host
	path  string
	expr  *regexp.Regexp
}

// Filters are patterns of URLs, as a job includes or excludes them. Safe for concurrent use, as
// they never change.
type Filters []filter

// regexpMark begins a pattern that is a regular expression.
const regexpMark = "re:"

// NewFilters compiles patterns: /PATH or HOST/PATH as in robots.txt, or re:EXPRESSION.
func NewFilters(patterns []string) (Filters, error) {
	nodes := maxRegexpNodes
	return newFilters(patterns, &nodes)
}

// newFilters compiles the patterns of a list; nodes counts what is left for regular expressions.
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
			return f, fmt.Errorf("the regular expressions of the job are too large, with what they repeat: more than %d parts", maxRegexpNodes)
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
		return f, errors.New("want /PATH for any host, HOST/PATH, or re:EXPRESSION; * stands for anything, so /*.pdf$ is all that ends in .pdf")
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

// size counts the parts of a regular expression with its repetitions written out, as far as most.
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

// compileFilters makes the patterns of URLs ready, and the depths of hosts.
func (s *Spec) compileFilters() error {
	total, nodes := 0, maxRegexpNodes
	for _, list := range [][]string{s.Include, s.Exclude, s.First} {
		for _, text := range list {
			total += len(text)
		}
	}
	if total > maxFilterBytes {
		return fmt.Errorf("job spec: patterns of URLs of %d bytes together, at most %d", total, maxFilterBytes)
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
			return fmt.Errorf("job spec: seed %.200q: exclude %q leaves it out", seed, text)
		}
	}
	return nil
}

// Filtered says in a few words why the job's patterns leave out a URL in canonical form; empty if
// they do not. What a pattern to include must match are links to pages: seeds and where they
// redirect to (which are at depth 0), sitemaps and what belongs to a page are fetched without. What
// one to exclude matches is not fetched, robots.txt aside.
func (s *Spec) Filtered(url string, depth uint32, kind link.Kind) string {
	if kind == link.KindRobots {
		return ""
	}
	if text := s.exclude.Match(url); text != "" {
		return fmt.Sprintf("excluded by %q", text)
	}
	if len(s.include) > 0 && depth > 0 && kind == link.KindPage && s.include.Match(url) == "" {
		return "not among what the job includes"
	}
	return ""
}

// BoundsDepth says whether any URL may be too far from the seeds.
func (s *Spec) BoundsDepth() bool { return s.HasMaxDepth || len(s.depths) > 0 }

// AdmitsDepth says whether a URL of that depth is crawled at a host in canonical form.
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
