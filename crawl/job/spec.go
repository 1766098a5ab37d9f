package job

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/apoidea/apoidea/crawl/link"
	"github.com/apoidea/apoidea/crawl/trap"
	"github.com/apoidea/apoidea/crawl/wire"
)

const (
	// DefaultRetries is the number of tries after the first (design, section 4).
	DefaultRetries = 3
	// MaxRetries is the highest number of retries of a spec.
	MaxRetries = 20
)

// Spec is the request of a poster. It never changes once posted, and is safe for concurrent use.
type Spec struct {
	ID ID // chosen by the poster
	// Seeds are canonical URLs, in the poster's order without repetition.
	Seeds []string
	// MoreSeeds is the number of URLs of a list too long for Seeds, which the poster sends to the
	// owners of their hosts itself, and SeedsDigest its SHA-256.
	MoreSeeds   uint64
	SeedsDigest []byte
	// Patterns are host globs as given; none means the hosts of the seeds.
	Patterns []string
	// HasMaxDepth reports whether MaxDepth is set; seeds have depth 0.
	HasMaxDepth bool
	MaxDepth    uint32 // links from a seed
	// HostDepths replace MaxDepth for the hosts that match; the first match applies.
	HostDepths []HostDepth
	// Include and Exclude are URL patterns as given, see Filtered.
	Include, Exclude []string
	// First are URL patterns, as given, that are fetched before others, see Rank.
	First []string
	// MaxPages, MaxBytes and MaxPagesPerHost limit fetches; 0 = unlimited.
	MaxPages, MaxBytes, MaxPagesPerHost uint64
	// Requisites also fetches images, scripts and style sheets, on any host.
	Requisites bool
	NoSitemaps bool      // sitemaps are not read
	Created    time.Time // by the poster's clock, in milliseconds
	// Poster is the ID of the key that posted the job, and Signature that key's signature of the rest.
	// For an unsigned job Poster is unverified.
	Poster, Signature []byte
	// PostedAt is the peer where it was posted; empty: that of Poster.
	PostedAt []byte
	// Retries is the number of tries after the first.
	Retries int
	// Traps are the limits of the trap rules; the zero value turns them off.
	Traps trap.Rules

	scope                   *Scope
	include, exclude, first Filters

	depths []*Scope            // of HostDepths
	seeded map[string]struct{} // hosts of seeds
}

// FromWire validates a spec, including its signature if any, and compiles it. Seeds are
// canonicalized.
func FromWire(m *wire.JobSpec) (*Spec, error) {
	s, err := FromDisk(m)
	if err == nil {
		err = s.verify()
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// FromDisk is FromWire for specs that were validated before they were stored: it skips the
// signature, which would fail if a later version canonicalizes seeds differently.
func FromDisk(m *wire.JobSpec) (*Spec, error) {
	if err := m.Validate(); err != nil {
		return nil, err
	}
	s := &Spec{
		ID: ID(m.GetId()), Patterns: slices.Clone(m.GetScope()),
		MoreSeeds: m.GetMoreSeeds(), SeedsDigest: bytes.Clone(m.GetSeedsDigest()),
		HasMaxDepth: m.GetHasMaxDepth(), MaxDepth: m.GetMaxDepth(), Include: slices.Clone(m.GetInclude()), Exclude: slices.Clone(m.GetExclude()), First: slices.Clone(m.GetFirst()),
		MaxPages: m.GetMaxPages(), MaxBytes: m.GetMaxBytes(), MaxPagesPerHost: m.GetMaxPagesPerHost(),
		Requisites: m.GetRequisites(), NoSitemaps: m.GetNoSitemaps(), Created: time.UnixMilli(m.GetCreatedMs()),
		Poster: bytes.Clone(m.GetPoster()), Signature: bytes.Clone(m.GetSignature()), PostedAt: bytes.Clone(m.GetPostedAt()), Retries: int(min(m.GetRetries(), math.MaxInt32)),
	}
	if m.GetNoRetries() {
		s.Retries = 0
	} else if s.Retries == 0 {
		s.Retries = DefaultRetries
	}
	if r := m.GetTrapRules(); r != nil {
		s.Traps = trap.Rules{Pattern: r.GetPattern(), Depth: r.GetDepth(), DepthStale: r.GetDepthStale(), Queries: r.GetQueries(), QueryStale: r.GetQueryStale(), Host: r.GetHost()}
	}
	if s.Retries > MaxRetries {
		return nil, fmt.Errorf("job spec: %d retries, at most %d", s.Retries, MaxRetries)
	}
	if len(m.GetSeeds()) == 0 {
		return nil, errors.New("job spec: no seeds")
	}
	if err := s.canonicalSeeds(m.GetSeeds()); err != nil {
		return nil, err
	}
	for _, d := range m.GetHostDepths() {
		s.HostDepths = append(s.HostDepths, HostDepth{d.GetHost(), d.GetDepth()})
	}
	if err := errors.Join(s.compileScope(), s.compileFilters()); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Spec) canonicalSeeds(raw [][]byte) error {
	known := make(map[string]struct{}, len(raw))
	s.seeded = make(map[string]struct{})
	size := 0
	for _, seed := range raw {
		url, err := link.Canonical(string(seed))
		if err != nil {
			return fmt.Errorf("job spec: seed %.200q: %w", seed, err)
		}
		if _, again := known[url]; !again {
			if size += len(url); size > wire.MaxSeedBytes {
				return fmt.Errorf("job spec: seeds exceed %d MiB together, post several jobs", wire.MaxSeedBytes>>20)
			}
			known[url] = struct{}{}
			s.Seeds = append(s.Seeds, url)
			s.seeded[strings.Clone(link.Host(url))] = struct{}{} // else it retains the whole URL
		}
	}
	return nil
}

func (s *Spec) compileScope() error {
	if len(s.Patterns) > 0 {
		scope, err := NewScope(s.Patterns)
		if err != nil {
			return fmt.Errorf("job spec: %w", err)
		}
		s.scope = scope
		return nil
	}
	s.scope = &Scope{exact: s.seeded}
	return nil
}

// Bare returns the spec without its seeds, which may take megabytes. It admits the same URLs, and
// must not be sent or stored.
func (s *Spec) Bare() *Spec {
	b := *s
	b.Seeds = nil
	return &b
}

// Wire returns the spec as a protocol message, which is also its stored form.
func (s *Spec) Wire() *wire.JobSpec {
	m := &wire.JobSpec{
		Id: s.ID[:], Scope: s.Patterns, HasMaxDepth: s.HasMaxDepth, MaxDepth: s.MaxDepth, MaxPages: s.MaxPages, MaxBytes: s.MaxBytes,
		MaxPagesPerHost: s.MaxPagesPerHost, Requisites: s.Requisites, NoSitemaps: s.NoSitemaps, CreatedMs: s.Created.UnixMilli(),
		Poster: s.Poster, Signature: s.Signature, Retries: uint32(s.Retries), NoRetries: s.Retries == 0, // at most MaxRetries
		Include: s.Include, Exclude: s.Exclude, First: s.First, MoreSeeds: s.MoreSeeds, SeedsDigest: s.SeedsDigest, PostedAt: s.PostedAt,
	}
	m.TrapRules = TrapRules(s.Traps)
	for _, d := range s.HostDepths {
		m.HostDepths = append(m.HostDepths, &wire.HostDepth{Host: d.Host, Depth: d.Depth})
	}
	for _, seed := range s.Seeds {
		m.Seeds = append(m.Seeds, []byte(seed))
	}
	return m
}

// TrapRules returns trap rules as a protocol message, nil if they are off.
func TrapRules(r trap.Rules) *wire.TrapRules {
	if !r.On() {
		return nil
	}
	return &wire.TrapRules{Pattern: r.Pattern, Depth: r.Depth, DepthStale: r.DepthStale, Queries: r.Queries, QueryStale: r.QueryStale, Host: r.Host}
}

// By reports whether a peer posted the job, according to the spec.
func (s *Spec) By(id string) bool {
	if len(s.PostedAt) > 0 {
		return string(s.PostedAt) == id
	}
	return string(s.Poster) == id
}

// InScope reports whether the job may visit a canonical host.
func (s *Spec) InScope(host string) bool { return s.scope.Admits(host) }

// MayDraw reports whether a host may have URLs of the job: without a scope of its own, a seed may
// redirect to any.
func (s *Spec) MayDraw(host string) bool {
	return s.OpenScope() || s.Requisites || s.InScope(host) || s.Seeded(host)
}

// Enters reports whether a URL is admitted although the scope does not include its host: a
// requisite if the job has them; a seed; and, unless the job has a scope of its own, the target of
// a seed's redirect, and of any page's redirect to its host with or without "www.". Seeds and their
// redirects have depth 0; only redirects of pages have hops.
func (s *Spec) Enters(host string, depth uint32, hops uint8, kind link.Kind) bool {
	if kind != link.KindPage {
		return kind == link.KindRequisite && s.Requisites
	}
	return depth == 0 && hops == 0 || s.OpenScope() && (depth == 0 || hops > 0 && s.sibling(host))
}

// sibling reports whether a host is that of a seed with or without "www.".
func (s *Spec) sibling(host string) bool {
	bare, www := strings.CutPrefix(host, "www.")
	return www && s.Seeded(bare) || s.Seeded("www."+host)
}

// OpenScope reports whether the job is limited to the hosts of its seeds and those that seeds
// redirect to, because it was posted without a scope.
func (s *Spec) OpenScope() bool { return len(s.Patterns) == 0 }

// MayReach reports whether a link to a host is sent to the owner of the host, which decides.
// Besides the scope, and without a scope of the job's own, these are the host of the page itself,
// which a seed may have redirected to, and the name of a seed's host with or without "www.".
func (s *Spec) MayReach(from, host string) bool {
	if s.InScope(host) {
		return true
	}
	if !s.OpenScope() {
		return false
	}
	return host == from || s.sibling(host)
}

// Seeded reports whether the host is that of a seed.
func (s *Spec) Seeded(host string) bool {
	_, ok := s.seeded[host]
	return ok
}

// Budgeted reports whether pages or bytes must be drawn before they are spent.
func (s *Spec) Budgeted() bool { return s.MaxPages > 0 || s.MaxBytes > 0 }

// behind is added to the rank of URLs that match no pattern which the job fetches first.
const behind = 1 << 30

// Ordered reports whether URLs have another rank than their depth.
func (s *Spec) Ordered() bool { return len(s.first) > 0 }

// Rank returns the rank of a canonical URL at a depth among the waiting URLs of its host, and of
// its host among others: lower ranks go first, equal ones by arrival. No other order exists in a
// crawl. A crawl is breadth-first: the rank is the depth. URLs that the job fetches first precede
// all others.
func (s *Spec) Rank(url string, depth uint32) uint32 {
	rank := min(depth, behind-1)
	if s.Ordered() && s.first.Match(url) == "" {
		rank += behind
	}
	return rank
}

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
	name := HostName(host)
	if len(name) != len(host) {
		if _, ok := s.exact[name]; ok {
			return true
		}
	}
	return slices.ContainsFunc(s.suffixes, func(suffix string) bool { return strings.HasSuffix(name, suffix) }) ||
		slices.ContainsFunc(s.globs, func(glob string) bool {
			return matchGlob(glob, host) || len(name) != len(host) && matchGlob(glob, name)
		})
}

// HostName returns a host without its port.
func HostName(host string) string {
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
