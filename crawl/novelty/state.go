package novelty

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bounds and weights.
const (
	// Near is how many bits the prints of near duplicates differ in at most: about one word in a hundred.
	Near = 3
	// DefaultPages is how many strong repeats in a row make a trap.
	DefaultPages = 400
	// MaxPages bounds that number.
	MaxPages = 1 << 20

	maxPrints = 512 // remembered of a host, those met last; maxTexts of words beside links
	maxTexts  = 128
	maxExact  = 128 // of words in which not even a number differs
	maxGroups = 128 // shapes and areas of a host, those met last
	nearby    = 64
	// often is how many times a page has to have been met before it counts as a repeat where its like was met last, most as one anywhere on the
	// host: mirrors and versions of one tree are none. exactly is that number for the same words on plain paths, as languages times versions are many.
	often   = 4
	most    = 32
	exactly = 64

	// What a page adds to a score, and takes off it. Weak evidence counts for a fifth.
	strongWeight = 50
	weakWeight   = 10
	newWeight    = 19 * strongWeight
	nearWeight   = 3
	sameWeight   = 2 // of a repeat, and of an error, where nothing grows: of a list without end, such as that of sitemaps
	errorWeight  = 1
	otherWeight  = 19 * nearWeight
	mazeWeight   = 8
	chainWeight  = 4
	graphWeight  = 19 * mazeWeight

	mazeLinks = 3   // new URLs that a page of a maze brings at least; one of a chain brings fewer
	mazeSlack = 2   // known links that it may have beyond those that all pages have
	block     = 128 // pages over which the least number of known links is taken, and those of the block before
)

// Page is what came of one URL.
type Page struct {
	// URL in canonical form.
	URL string
	// Text and All are the prints of an HTML page, zero for what is none; Known says of the latter that its body was met before.
	Text, All uint64
	// Words is the same only for pages that say exactly the same, zero if it was not told.
	Words uint64
	Known bool
	// Failed: there was no page, but an error.
	Failed bool
	// Links of the page to its own host, and how many of them were new to the host's URL set.
	Links, New int
}

// State is what is remembered of a host in one job. The zero value is that of a host of which nothing is known.
type State struct {
	seen    uint64 // pages
	repeats uint64 // of them
	score   uint32 // by what pages say
	near    uint32 // the same if they say almost what others say
	links   uint32 // the same by where they lead
	top     uint32 // the highest score of host, shapes and areas so far
	since   uint8  // pages since a repeat brought something, at most nearby+1
	text    prints
	all     prints
	exact   prints
	groups  []group
	// The least number of known links of a page, in this block of pages and in the one before.
	least, leastBefore uint32
}

// keys are those of a page's shape and of the areas that it lies in; 0 where there is none.
type keys [3]uint32

// met is a print, how often, and where last.
type met struct {
	bits uint64
	hits uint8
	at   keys
}

// prints are those met last, the latest at the end.
type prints []met

// group is a shape or an area.
type group struct {
	key   uint32
	score uint32
	seen  uint32 // pages
	last  uint64 // State.seen when it was met last
}

// Seen is the number of pages observed.
func (s *State) Seen() uint64 { return s.seen }

// meet says how often a print within so many bits of this one was met before and where last, and remembers it.
func (p *prints) meet(bits uint64, within int, at keys, room int) (hits int, before keys) {
	list := *p
	for i, known := range slices.Backward(list) {
		if distance(known.bits, bits) > within {
			continue
		}
		copy(list[i:], list[i+1:])
		list[len(list)-1] = met{known.bits, min(known.hits, math.MaxUint8-1) + 1, at}
		return int(known.hits), known.at
	}
	if len(list) >= room {
		list = append(list[:0], list[len(list)-room+1:]...)
	}
	*p = append(list, met{bits, 1, at})
	return 0, keys{}
}

// evidence is what one page says.
type evidence uint8

const (
	evNew     evidence = iota // it brings something
	evNothing                 // it says nothing either way
	evNear                    // almost what others say
	evWeak
	evStrong
)

// Observe notes a page. Pages is the number of strong repeats in a row that makes a trap.
func (s *State) Observe(p Page, pages int) {
	s.seen++
	at := keysOf(p.URL)
	host, parts := s.judge(&p, at)
	tree := s.tree(&p)
	repeat := host >= evNear
	if repeat {
		s.repeats++
	}
	switch {
	case (repeat || tree == maze) && p.New > 0:
		s.since = 0
	case s.seen == 1:
		s.since = nearby + 1
	default:
		s.since = min(s.since+1, nearby+1)
	}
	growing := s.since <= nearby
	stop := limit(pages)
	s.score = step(s.score, hostWeight(host, growing, p.Failed), stop)
	s.near = step(s.near, likeWeight(host, growing), stop)
	s.links = step(s.links, linkWeight(&p, tree, growing && s.links > 0), stop)
	s.top = max(s.top, s.score, s.near, s.links)
	if p.Failed {
		return // an address that is nowhere says nothing of those like it
	}
	for i, key := range at {
		if key == 0 {
			continue
		}
		g := s.group(key)
		g.seen++
		g.last = s.seen
		g.score = step(g.score, partWeight(parts[i], growing), stop)
		s.top = max(s.top, g.score)
	}
}

// judge says what a page's words are to the host, and to its shape and areas: there it is a repeat only if it was met there before.
func (s *State) judge(p *Page, at keys) (host evidence, parts [3]evidence) {
	switch {
	case p.Failed:
		return evStrong, parts
	case p.All == 0 && p.Known:
		return evNothing, [3]evidence{evNothing, evNothing, evNothing}
	case p.All == 0:
		return evNew, parts
	}
	all, before := s.all.meet(p.All, Near, at, maxPrints)
	text, _ := s.text.meet(p.Text, Near, at, maxTexts)
	exact, place := s.exact.meet(cmp.Or(p.Words, p.All), 0, at, maxExact)
	here := often
	if p.Words != 0 && !generated(p.URL) {
		here = exactly
	}
	again, like := all >= most && exact >= max(here, most), all >= most
	for i := range parts {
		switch {
		case at[i] == 0 || all == 0:
		case all >= often && at[i] == before[i]:
			parts[i], like = evNothing, true
			if exact >= here && at[i] == place[i] {
				parts[i], again = evStrong, true
			}
		default:
			parts[i] = evNothing
		}
	}
	switch {
	case again:
		return evStrong, parts
	case like:
		return evNear, parts
	case all > 0:
		return evNothing, parts
	case text >= most && exact >= most:
		return evWeak, parts
	case text > 0:
		return evNothing, parts
	default:
		return evNew, parts
	}
}

// generated says whether a URL looks as if there were others like it without end: it asks something, or has a token or a parameter in its path.
func generated(url string) bool { return strings.ContainsAny(Shape(url), "?;"+token) }

// tree says what a page's links make of its host.
type tree uint8

const (
	graph tree = iota // they lead to pages that are known, as those of most sites do
	chain
	maze
)

// tree looks at the links of a page: in a chain or a maze they lead to nothing known but to what all pages here link to.
func (s *State) tree(p *Page) tree {
	if p.Failed || p.All == 0 || p.Links == 0 {
		return graph
	}
	if s.seen == 1 {
		s.least, s.leastBefore = math.MaxUint32, math.MaxUint32
	} else if s.seen%block == 1 {
		s.least, s.leastBefore = math.MaxUint32, s.least
	}
	known := uint32(max(p.Links-p.New, 0)) //nolint:gosec // bounded by who reports
	s.least = min(s.least, known)
	switch {
	case p.New == 0 || known > min(s.least, s.leastBefore)+mazeSlack:
		return graph
	case p.New < mazeLinks:
		return chain
	default:
		return maze
	}
}

// hostWeight is what a page's words add to the score of its host.
func hostWeight(e evidence, growing, failed bool) int32 {
	switch {
	case e == evNew:
		return -newWeight
	case e == evStrong && growing:
		return strongWeight
	case e == evWeak && growing:
		return weakWeight
	case e == evStrong && failed:
		return errorWeight
	case e == evStrong:
		return sameWeight
	default:
		return 0
	}
}

// likeWeight is what a page that says almost what others say adds to the score of such.
func likeWeight(e evidence, growing bool) int32 {
	switch {
	case e == evNew:
		return -otherWeight
	case e >= evNear && growing:
		return nearWeight
	default:
		return 0
	}
}

// linkWeight is what a page's links add to the score of its host's links. An error among the pages of a maze or a chain is of it.
func linkWeight(p *Page, t tree, among bool) int32 {
	switch {
	case p.Failed && among:
		return mazeWeight
	case p.Failed:
		return 0
	case t == maze:
		return mazeWeight
	case t == chain:
		return chainWeight
	default:
		return -graphWeight
	}
}

// partWeight is what a page adds to the score of its shape, or of an area.
func partWeight(e evidence, growing bool) int32 {
	switch {
	case e == evNew:
		return -newWeight
	case e == evStrong && growing:
		return strongWeight
	default:
		return 0
	}
}

// step moves a score. One that has come to the end stays there: what is asked of a trap afterwards was on its way before.
func step(score uint32, w int32, stop uint32) uint32 {
	switch {
	case score >= stop:
		return score
	case w < 0:
		return score - min(score, uint32(-w))
	default:
		return score + uint32(w)
	}
}

// limit is the score of a trap.
func limit(pages int) uint32 { return strongWeight * uint32(min(max(pages, 1), MaxPages)) } //nolint:gosec // bounded

// group returns that of a key, made in the place of the one that matters least where there is no room.
func (s *State) group(key uint32) *group {
	least := 0
	for i := range s.groups {
		g := &s.groups[i]
		if g.key == key {
			return g
		}
		if g.before(&s.groups[least]) {
			least = i
		}
	}
	if len(s.groups) < maxGroups {
		s.groups = append(s.groups, group{})
		least = len(s.groups) - 1
	}
	s.groups[least] = group{key: key}
	return &s.groups[least]
}

// before orders groups by which goes first where there is no room: that with the smaller score, and of these the one met longer ago.
func (g *group) before(o *group) bool {
	return g.score < o.score || g.score == o.score && g.last < o.last
}

// Verdict is what a host's pages so far say of one URL.
type Verdict struct {
	// Stop: it is not to be fetched. Why says for people what was seen.
	Stop bool
	Why  string
	// Last: its shape or area is half of the way to that and the host is not, so other URLs of the host go first.
	Last bool
}

// Host says whether the whole host is a trap, and why.
func (s *State) Host(pages int) (stop bool, why string) {
	switch stop := limit(pages); {
	case s.score >= stop, s.near >= stop:
		return true, fmt.Sprintf("the last pages of the host brought nothing new, unless it was more URLs (%d of %d were near duplicates or errors; %s)",
			s.repeats, s.seen, flagNote(pages))
	case s.links >= stop:
		return true, fmt.Sprintf("the last pages of the host lead to ever new URLs and to none that other pages lead to (%d pages were seen; %s)", s.seen, flagNote(pages))
	default:
		return false, ""
	}
}

func flagNote(pages int) string { return fmt.Sprintf("--novelty %d", pages) }

// Verdict judges a URL by its host, its shape and its areas.
func (s *State) Verdict(url string, pages int) (v Verdict) {
	if v.Stop, v.Why = s.Host(pages); v.Stop {
		return v
	}
	stop := limit(pages)
	if s.top*2 < stop {
		return v
	}
	for i, key := range keysOf(url) {
		g := s.find(key)
		switch {
		case key == 0 || g == nil:
		case g.score >= stop:
			return Verdict{Stop: true, Why: fmt.Sprintf("the last pages of the form %s brought ever new URLs and nothing new otherwise (%d pages of it were seen; %s)",
				form(url, i), g.seen, flagNote(pages))}
		case g.score*2 >= stop:
			v.Last = max(s.score, s.near, s.links)*2 < stop
		}
	}
	return v
}

// Pace is by how much less often than usual the host is to be asked: up to twice, from a quarter of the way to a trap on. Where links lead says nothing here:
// such a host may well have something new to say.
func (s *State) Pace(pages int) float64 {
	switch stop := limit(pages); {
	case s.score*4 < stop:
		return 1
	case s.score*2 < stop:
		return 1.25
	case s.score/3*4 < stop:
		return 1.5
	default:
		return 2
	}
}

func (s *State) find(key uint32) *group {
	for i := range s.groups {
		if s.groups[i].key == key {
			return &s.groups[i]
		}
	}
	return nil
}

// Share is how far the host, or the shape or area of it that is furthest, has come on the way to a trap: 1 is one.
func (s *State) Share(pages int) float64 { return min(float64(s.top)/float64(limit(pages)), 1) }
