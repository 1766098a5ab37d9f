package trap

import (
	"fmt"
	"slices"
	"strings"
)

// Rules are the limits of the rules, fields of a job's spec. The zero value turns all rules off.
type Rules struct {
	Pattern    uint32 // rule 2: stale pages in a row
	Depth      uint32 // rule 3: links from the entry point
	DepthStale uint32 // rule 3: pages in a row
	Queries    uint32 // rule 4: combinations of one path
	QueryStale uint32 // rule 4: stale ones in a row
	Host       uint32 // rule 5: stale pages in a row
}

// Default are the rules of a job that does not turn them off.
var Default = Rules{Pattern: 1000, Depth: 200, DepthStale: 100, Queries: 1000, QueryStale: 500, Host: 5000}

// On reports whether any rule is on.
func (r *Rules) On() bool { return *r != Rules{} }

// Rule is the number of a rule; 0: none.
type Rule uint8

// The rules, as in the package comment.
const (
	None Rule = iota
	Paths
	Repeats
	Depths
	Queries
	Hosts
	Count = iota // of the numbers above
)

const (
	maxTexts    = 4096 // digests of texts that are remembered, the latest
	maxMasked   = 1024 // the same with digits masked
	maxPatterns = 256  // patterns and paths that are remembered, the latest used
	late        = 20   // pages in a row with a known text after which a pattern comes after others
)

// Page is what a rule needs of a page.
type Page struct {
	URL string
	// Text is the digest of the text outside links with title, description and addresses of images,
	// or of the body of another document; 0: the page has none, as a redirect. Masked is the same
	// with digits masked.
	Text, Masked uint64
	Depth        uint32 // links from the seeds
	// New are the new URLs on the same host that the page brought; Foreign reports that it brought a
	// new URL on another host.
	New     []string
	Foreign bool
	Brought uint64 // number of all new URLs on the same host
}

// State is what is known of a job's pages of a host. The zero value has seen no page.
type State struct {
	pages    uint64
	brought  uint64 // URLs that the host's own pages brought
	entry    uint32 // least depth of a page, plus one
	row      uint32 // pages in a row that rule 5 counts
	left     bool   // rule 5
	texts    recent
	masked   recent
	patterns []pattern
	Left     [Count]Left // what was left, by rule
}

// Left counts URLs that a rule left.
type Left struct {
	N   uint64
	URL string // the first of them
}

// pattern is what is known of a pattern (rules 2 and 3), or of the combinations of a path (rule 4).
type pattern struct {
	key   uint32
	used  uint64 // State.pages at its last use
	seen  uint32 // pages
	row   uint32 // pages in a row that rule 2 or 4 counts
	known uint32 // pages in a row with a known text, digits masked
	deep  uint32 // pages in a row that rule 3 counts
	from  uint32 // rule 3: distance from the entry point from which the pattern is left; 0: none
	final bool   // left by rule 2 or 4
	texts bool   // it had a page with a new text
}

// Pages is the number of pages observed.
func (s *State) Pages() uint64 { return s.pages }

// Named returns how many of the accepted URLs of the host its own pages did not bring.
func (s *State) Named(accepted int64) int64 { return max(accepted-int64(min(s.brought, 1<<62)), 0) } //nolint:gosec // bounded

// Whole reports whether rule 5 left the host.
func (s *State) Whole() bool { return s.left }

// Known reports whether the text of a page, digits masked, was seen on the host: what such a page
// brings comes after others.
func (s *State) Known(masked uint64) bool { return masked == 0 || s.masked.has(masked) }

// Observe takes a page in, in the order of the fetches.
func (s *State) Observe(p *Page, r *Rules) {
	s.pages++
	s.brought += p.Brought
	if s.entry == 0 || p.Depth < s.entry-1 {
		s.entry = p.Depth + 1
	}
	key := Pattern(p.URL)
	known, masked := p.Text == 0 || s.texts.has(p.Text), s.Known(p.Masked)
	if !known {
		s.texts.add(p.Text, maxTexts)
	}
	if !masked {
		s.masked.add(p.Masked, maxMasked)
	}
	news := s.news(p, key)
	s.row = next(s.row, known && !news.useful)
	s.left = s.left || r.Host > 0 && s.row >= r.Host
	pt := s.use(key)
	pt.count(known, masked, known && !news.outside)
	pt.final = pt.final || r.Pattern > 0 && pt.row >= r.Pattern
	if distance := s.distance(p.Depth); r.DepthStale > 0 && distance > r.Depth {
		if pt.deep = next(pt.deep, masked && !news.outside); pt.deep >= r.DepthStale && pt.from == 0 {
			pt.from = distance
		}
	}
	if key := combination(p.URL); key != 0 {
		c := s.use(key)
		c.count(known, masked, known && !news.plain)
		c.final = c.final || r.QueryStale > 0 && c.seen >= r.Queries && c.row >= r.QueryStale
	}
}

// news is what the new URLs of a page are worth.
type news struct {
	outside bool // one is outside the pattern of the page, in none that is left
	useful  bool // one of those is of a pattern that had new texts
	plain   bool // one has no query
}

func (s *State) news(p *Page, key uint32) news {
	n := news{outside: p.Foreign, plain: p.Foreign}
	for _, url := range p.New {
		n.plain = n.plain || strings.IndexByte(url, '?') < 0
		of := Pattern(url)
		if of == key {
			continue
		}
		if pt := s.find(of); pt == nil {
			n.outside = true
		} else if !pt.final && (pt.from == 0 || s.distance(p.Depth+1) < pt.from) {
			n.outside, n.useful = true, n.useful || pt.texts
		}
	}
	return n
}

func (pt *pattern) count(known, masked, stale bool) {
	pt.seen = next(pt.seen, true)
	pt.known = next(pt.known, masked)
	pt.row = next(pt.row, stale)
	pt.texts = pt.texts || !known
}

// next continues or ends a row.
func next(row uint32, more bool) uint32 {
	if !more {
		return 0
	}
	return row + min(1, ^row) // no overflow
}

// distance is the number of links from the entry point of the host.
func (s *State) distance(depth uint32) uint32 { return depth - min(depth, max(s.entry, 1)-1) }

// Verdict judges a URL that waits: the rule that leaves it, if any, and else whether it comes after
// others as its like brought nothing new lately.
func (s *State) Verdict(url string, depth uint32) (rule Rule, last bool) {
	if s.left {
		return Hosts, false
	}
	if pt := s.find(Pattern(url)); pt != nil {
		switch {
		case pt.final:
			return Repeats, false
		case pt.from > 0 && s.distance(depth) >= pt.from:
			return Depths, false
		}
		last = pt.known >= late
	}
	if c := s.find(combination(url)); c != nil {
		if c.final {
			return Queries, false
		}
		last = last || c.known >= late
	}
	return None, last
}

// Leave counts a URL that a rule left.
func (s *State) Leave(rule Rule, url string) {
	l := &s.Left[rule]
	if l.N++; l.N == 1 {
		l.URL = url[:min(len(url), maxLength)]
	}
}

// Text describes a rule with its limit.
func (r *Rules) Text(rule Rule) string {
	switch rule {
	case Paths:
		return "rule 1: a path with repeated or too many segments, or a URL over 2,000 bytes"
	case Repeats:
		return fmt.Sprintf("rule 2: %d pages in a row of its pattern brought nothing new", r.Pattern)
	case Depths:
		return fmt.Sprintf("rule 3: %d pages in a row, over %d links deep, brought nothing new", r.DepthStale, r.Depth)
	case Queries:
		return fmt.Sprintf("rule 4: %d query combinations in a row of its path brought nothing new", r.QueryStale)
	case Hosts:
		return fmt.Sprintf("rule 5: %d pages in a row of its host brought nothing new", r.Host)
	default:
		return ""
	}
}

func (s *State) find(key uint32) *pattern {
	for i := range s.patterns {
		if s.patterns[i].key == key {
			return &s.patterns[i]
		}
	}
	return nil
}

// use returns a pattern, in the place of the one used longest ago if there are too many. One that
// is left gives its place only to others that are left.
func (s *State) use(key uint32) *pattern {
	pt := s.find(key)
	if pt == nil && len(s.patterns) < maxPatterns {
		s.patterns = append(s.patterns, pattern{key: key})
		pt = &s.patterns[len(s.patterns)-1]
	} else if pt == nil {
		pt = &s.patterns[0]
		for i := range s.patterns {
			if o := &s.patterns[i]; o.isLeft() == pt.isLeft() && o.used < pt.used || pt.isLeft() && !o.isLeft() {
				pt = o
			}
		}
		*pt = pattern{key: key}
	}
	pt.used = s.pages
	return pt
}

func (pt *pattern) isLeft() bool { return pt.final || pt.from > 0 }

// recent is a set of the latest digests, cut to 32 bits.
type recent struct {
	list []uint32
	at   int // where the next one goes once the list is full
}

func cut(digest uint64) uint32 { return uint32(digest>>32) ^ uint32(digest) }

func (r *recent) has(digest uint64) bool { return slices.Contains(r.list, cut(digest)) }

func (r *recent) add(digest uint64, most int) {
	if len(r.list) < most {
		r.list = append(r.list, cut(digest))
		return
	}
	r.list[r.at] = cut(digest)
	r.at = (r.at + 1) % most
}
