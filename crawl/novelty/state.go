package novelty

import (
	"cmp"
	"math"
	"slices"

	"github.com/apoidea/apoidea/crawl/frame"
	"github.com/apoidea/apoidea/crawl/shape"
)

// Bounds.
const (
	// DefaultPages is how many empty pages in a row make a trap.
	DefaultPages = 400
	// MaxPages bounds that number.
	MaxPages = 1 << 20
	// MaxBrought is how many of the URLs that a page brings are looked at.
	MaxBrought = 8

	maxPrints = 1024 // remembered of a host, those met last
	maxParts  = 96   // those met last
	maxLeft   = 64   // bytes of a part's name
	nearby    = 64   // pages behind one that leads nowhere, in which an error is of its kind
	fewSeen   = 16   // pages that tell what a part is like
	fewTold   = 32   // the same where they tell by their links
	// A part lives for so many pages after each that brought something, as long as one in ten does,
	// and not for more than longest.
	lively      = 10
	longest     = 64
	livelyLeast = 8
	// maxProbes: once a host is left, so many pages of parts that are not known are tried.
	maxProbes = 64
)

// A page repeats others if its own words were met so many times.
const (
	often    = 4  // usually
	copies   = 16 // of a page that brings no URL, as the permalinks of a forum are
	editions = 64 // on plain paths, as languages times versions are many
)

// Page is what came of one URL.
type Page struct {
	// URL in canonical form.
	URL string
	// Own is what the page says, see frame.Body for what is no HTML.
	Own frame.Own
	// Failed: there was no page, but an error. Redirect: it leads to the page that it brings.
	Failed, Redirect bool
	// Links of the page to its own host, and how many of them were new to the host's URL set.
	Links, New int
	// Brought are some of the new ones, at most MaxBrought.
	Brought []string
}

// State is what is remembered of a host in one job. The zero value is that of a host of which
// nothing is known.
type State struct {
	seen    uint64 // pages
	empties uint64 // of them
	rest    part   // the account of all pages whose part does not live, or is not known well
	parts   []part
	words   prints
	all     prints
	since   uint8  // pages since an empty one brought URLs, at most nearby+1
	mazed   uint8  // pages since one of a maze, at most nearby+1
	probed  uint8  // pages of parts that are not known that were asked for since the host is left
	left    string // the part that was left last, as far as maxLeft
	brought uint64 // URLs that pages brought, and of them those of parts that are worth their requests, or not known
	grown   uint64
	lists   uint32 // the account of sitemaps
	// The least number of known links of a page, in this block of pages and in the one before.
	least, leastBefore uint32
}

// part is what is known of a part of a host, see package shape.
type part struct {
	key   uint32
	empty uint32 // by what its pages say
	maze  uint32 // by where they lead
	seen  uint32 // pages
	news  uint32 // of them, those that brought something
	fresh uint8  // for how many more pages it lives
	grows uint8  // the same behind one of numbers that brought URLs
	to    uint32 // key of another part that its pages brought URLs of; one that lives, if any does
	last  uint64 // State.seen when it was met last
	wide  bool   // it is no narrow part
}

// lives says whether one of the last pages of a part brought something, and more of it did than is
// by chance.
func (g *part) lives() bool {
	return g != nil && g.fresh > 0 && (g.news >= livelyLeast || 2*g.news >= g.seen)
}

// worthy says whether a part lives, or leads to one that does.
func (s *State) worthy(g *part) bool { return g.lives() || g != nil && s.at(g.to).lives() }

// known says whether a part has shown what it is like.
func (g *part) known() bool { return g != nil && g.seen >= fewSeen }

// settled says whether the pages of a part are known to end, or to lead to one another.
func (g *part) settled() bool { return g != nil && g.seen >= fewTold && g.maze == 0 }

func (g *part) worst() uint32 { return max(g.empty, g.maze) }

// Seen is the number of pages observed.
func (s *State) Seen() uint64 { return s.seen }

// prints are those met last with how often, the latest at the end.
type prints []met

type met struct {
	bits   uint32
	hits   uint8
	copied bool // it turned out to be what many pages say
}

// meet remembers a print. It was met once less before.
func (p *prints) meet(what uint64) *met {
	list, now := *p, met{bits: fold(what)}
	if i := slices.IndexFunc(list, func(m met) bool { return m.bits == now.bits }); i >= 0 {
		now = list[i]
		list = slices.Delete(list, i, i+1)
	} else if len(list) >= maxPrints {
		list = slices.Delete(list, 0, 1)
	}
	now.hits = min(now.hits, math.MaxUint8-1) + 1
	*p = append(list, now)
	return &(*p)[len(*p)-1]
}

func fold(h uint64) uint32 { return uint32(h>>32) ^ uint32(h) } // halves

// evidence is what one page says.
type evidence uint8

const (
	evNothing evidence = iota // nothing either way
	evNew                     // something of its own
	evLeads                   // where such pages are
	evNumbers                 // nothing but numbers
	evEmpty                   // what others said
	evCopy                    // the same, and what the first of them said was nothing of its own
	evFailed
)

// Observe notes a page. Pages is the number of empty pages in a row that makes a trap.
func (s *State) Observe(p Page, pages int) {
	if s.seen++; s.seen == 1 {
		s.since, s.mazed = nearby+1, nearby+1
	}
	wide, narrow := shape.Parts(p.URL)
	form := shape.Of(p.URL)
	e := s.judge(&p, form)
	stop := limit(pages)
	judged, learns := s.enter(wide, narrow)
	leads, open, worth := s.brings(judged, &p)
	s.brought += uint64(max(p.New, 0))
	s.grown += uint64(worth)
	t := s.tree(&p, open)
	if e >= evNumbers && e != evFailed && leads {
		e = evLeads
	}
	s.note(&p, e, t)
	said, told := s.weight(&p, e, form, judged), int32(0)
	if e < evEmpty || e == evFailed { // what says nothing is judged by that
		told = linkWeight(e, t, s.mazed <= nearby)
	}
	before := judged.worst()
	judged.add(e, p.New > 0, said, told, stop)
	if before < stop && judged.worst() >= stop {
		s.left = wide
		if !judged.wide {
			s.left = narrow
		}
		s.left = s.left[:min(len(s.left), maxLeft)]
	}
	if learns != nil {
		learns.add(e, p.New > 0, said, told, stop)
		learns.to = cmp.Or(judged.to, learns.to)
	}
	if !s.worthy(judged) {
		s.rest.empty = step(s.rest.empty, said, stop)
	}
	if !judged.settled() {
		s.rest.maze = step(s.rest.maze, told, stop)
	}
	if e == evNew {
		s.rest.news++
		if judged.seen <= fewSeen {
			s.probed -= min(s.probed, lively) // what was asked for to see has shown something
		}
	}
}

// note counts a page of the host.
func (s *State) note(p *Page, e evidence, t tree) {
	s.since, s.mazed = min(s.since+1, nearby+1), min(s.mazed+1, nearby+1)
	if e >= evNumbers {
		s.empties++
		if p.New > 0 {
			s.since = 0
		}
	}
	if t == maze {
		s.mazed = 0
	}
}

// enter finds the parts of a page: the one that it is judged by, which is the narrow one once that
// is known, and another that learns from it, if there is one.
func (s *State) enter(wide, narrow string) (judged, learns *part) {
	judged = s.part(wide)
	judged.last, judged.wide = s.seen, true
	if narrow == "" {
		return judged, nil
	}
	learns = s.part(narrow)
	learns.last = s.seen
	if learns.seen+1 >= fewSeen {
		return learns, nil
	}
	judged = s.part(wide) // it may stand elsewhere now
	if judged.last, judged.wide = s.seen, true; judged == learns {
		return judged, nil // there was room for one of them
	}
	return judged, learns
}

func (g *part) add(e evidence, brings bool, said, told int32, stop uint32) {
	g.seen++
	g.fresh -= min(g.fresh, 1)
	switch e {
	case evNew:
		g.fresh = min(g.fresh+lively, longest)
		g.news++
	case evCopy:
		g.fresh = 0
		g.news -= min(g.news, 1)
	}
	if g.grows -= min(g.grows, 1); e == evNumbers && brings {
		g.grows = lively
	}
	g.empty, g.maze = step(g.empty, said, stop), step(g.maze, told, stop)
}

// judge says what a page brings.
func (s *State) judge(p *Page, form string) evidence {
	switch {
	case p.Failed:
		return evFailed
	case p.Redirect:
		return evEmpty
	case p.Own.Words == 0:
		return evNothing
	}
	if p.Own.Words != frame.None {
		m, need := s.words.meet(p.Own.Words), enough(p, form)
		switch before := int(m.hits) - 1; {
		case before == 0:
			return evNew
		case before < need:
			return evNothing
		case need == often && p.Own.Count >= frame.FewWords && !m.copied:
			m.copied = true
			return evCopy
		}
	}
	if p.Own.All != p.Own.Words && s.all.meet(p.Own.All).hits <= copies {
		return evNumbers
	}
	return evEmpty
}

// enough is how often a page's own words are to be met before it repeats others.
func enough(p *Page, form string) int {
	switch {
	case p.Own.Count < frame.FewWords:
		return often
	case !shape.Generated(form):
		return editions
	case p.New == 0:
		return copies
	default:
		return often
	}
}

// Doubts says whether the URLs that a page brings are to go behind the others of its host: it said
// what others said, and many such pages were met of late.
func (s *State) Doubts(url string, own frame.Own, pages int) bool {
	if s.rest.empty*lastShare < limit(pages) || own.Words == 0 {
		return false
	}
	if s.Worthy(url) {
		return false
	}
	bits := fold(own.Words)
	return own.Words == frame.None || slices.ContainsFunc(s.words, func(m met) bool { return m.bits == bits && m.hits >= often })
}

// Worthy says whether the part of a URL brings something, or leads to one that does.
func (s *State) Worthy(url string) bool {
	g, _ := s.find(url)
	return s.worthy(g)
}

// brings looks at the URLs that a page of a part brings: whether one is of another part, which
// lives, how many are of parts of which it is not known that they end, and how many of all new ones
// are worth their requests, or may be.
func (s *State) brings(own *part, p *Page) (leads bool, open, worth int) {
	looked := p.Brought[:min(len(p.Brought), MaxBrought)]
	for _, url := range looked {
		g, key := s.find(url)
		if !g.settled() {
			open++
		}
		if !g.known() || s.worthy(g) {
			worth++
		}
		if key == own.key {
			continue
		}
		leads = leads || g.lives()
		if g.lives() || !s.at(own.to).lives() {
			own.to = key
		}
	}
	if len(looked) > 0 {
		worth = worth * max(p.New, len(looked)) / len(looked)
	}
	return leads, open, worth
}

// Sitemap notes a sitemap that brought URLs which were new, by some of the pages among them. One
// that brings nothing but sitemaps is empty, and one of pages that say nothing is as empty as
// these. Pages as in Observe.
func (s *State) Sitemap(brought []string, pages int) {
	w := int32(strongWeight * max(len(brought), 1)) // a few
	for _, url := range brought {
		if g, _ := s.find(url); !g.known() || s.worthy(g) {
			w = -newWeight
		}
	}
	s.lists = step(s.lists, w, limit(pages))
}

// Grown is how many URLs the host's own pages brought that are worth their requests, or may be.
func (s *State) Grown() (urls int64) { return int64(s.grown) } // counted

// Named is how many of the URLs accepted came otherwise: from other hosts, seeds and sitemaps.
func (s *State) Named(accepted int64) (urls int64) { return max(accepted-int64(s.brought), 0) } // counted

// tree is what a page's links make of its host.
type tree uint8

const (
	graph tree = iota // they lead to pages that are known, as those of most sites do
	chain
	maze
)

const (
	mazeLinks = 3   // new URLs that a page of a maze brings at least; one of a chain brings fewer
	mazeSlack = 2   // known links that it may have beyond those that all pages have
	block     = 128 // pages over which the least number of known links is taken
)

// tree looks at the links of a page: in a chain or a maze they lead to nothing known but to what
// all pages here link to. Open are those of them that may lead on.
func (s *State) tree(p *Page, open int) tree {
	if p.Failed || p.Redirect || p.Links == 0 {
		return graph
	}
	if s.seen == 1 {
		s.least, s.leastBefore = math.MaxUint32, math.MaxUint32
	} else if s.seen%block == 1 {
		s.least, s.leastBefore = math.MaxUint32, s.least
	}
	known := uint32(max(p.Links-p.New, 0)) // bounded by who reports
	s.least = min(s.least, known)
	switch {
	case p.New == 0 || known > min(s.least, s.leastBefore)+mazeSlack:
		return graph
	case len(p.Brought) > 0 && open == 0:
		return graph
	case p.New < mazeLinks || len(p.Brought) > 0 && open < mazeLinks:
		return chain
	default:
		return maze
	}
}

// What a page adds to an account, and takes off it.
const (
	strongWeight = 50
	newWeight    = 19 * strongWeight
	numberWeight = 16
	itemWeight   = 3 // of a page of numbers whose URL says which of many items it is
	errorWeight  = 1
	mazeWeight   = 8
	chainWeight  = 4
	graphWeight  = 19 * mazeWeight
)

// weight is what a page's words add to the accounts of its parts and its host.
func (s *State) weight(p *Page, e evidence, form string, g *part) int32 {
	switch {
	case e == evNew, e == evLeads:
		return -newWeight
	case e == evCopy:
		return newWeight
	case e == evFailed && (s.since <= nearby || s.mazed <= nearby), e == evEmpty:
		return strongWeight
	case e == evFailed:
		return errorWeight
	case e != evNumbers || 10*g.news >= g.seen:
		return 0
	}
	switch grows := p.New > 0 || g.grows > 0; {
	case shape.Item(form) && !grows:
		return 0
	case shape.Item(form) || !grows:
		return itemWeight
	default:
		return numberWeight
	}
}

// linkWeight is what a page's links add. An error among the pages of a maze or a chain is of it.
func linkWeight(e evidence, t tree, among bool) int32 {
	switch {
	case e == evFailed && among, t == maze:
		return mazeWeight
	case e == evFailed:
		return 0
	case t == chain:
		return chainWeight
	default:
		return -graphWeight
	}
}

// step moves an account. One that is full stays so: what is asked of a trap afterwards was on its
// way before.
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

// limit is a full account.
func limit(pages int) uint32 { return strongWeight * uint32(min(max(pages, 1), MaxPages)) } // bounded

// part returns a part, made in the place of the one that matters least where there is no room.
func (s *State) part(text string) *part {
	key := shape.Hash(text)
	if g := s.at(key); g != nil {
		return g
	}
	if len(s.parts) < maxParts {
		s.parts = append(s.parts, part{key: key})
		return &s.parts[len(s.parts)-1]
	}
	i := 0
	for k := range s.parts {
		if before(&s.parts[k], &s.parts[i]) {
			i = k
		}
	}
	s.parts[i] = part{key: key}
	return &s.parts[i]
}

// before says which of two parts is dropped first for want of room: a narrow one that is not known,
// then what is not known, then what does not live, and of the same the one met longer ago.
func before(a, b *part) bool {
	rank := func(g *part) (n int) {
		for i, is := range []bool{g.wide || g.known(), g.lives(), g.known()} {
			if is {
				n |= 1 << i
			}
		}
		return n
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.last, b.last)) < 0
}

func (s *State) at(key uint32) *part {
	if i := slices.IndexFunc(s.parts, func(g part) bool { return g.key == key }); i >= 0 {
		return &s.parts[i]
	}
	return nil
}

// find returns the part that a URL is judged by, nil if it is not known, and its key.
func (s *State) find(url string) (g *part, key uint32) {
	wide, narrow := shape.Parts(url)
	if narrow != "" {
		key = shape.Hash(narrow)
		if g = s.at(key); g.known() {
			return g, key
		}
	}
	key = shape.Hash(wide)
	return s.at(key), key
}
