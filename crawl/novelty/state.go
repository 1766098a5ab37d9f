package novelty

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// Bounds.
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
	maxGroups = 128 // parts of a host but for its forms, those met last
	maxForms  = 48  // forms of a host
	nearby    = 64
	// After a repeat that URLs from elsewhere came before, as many pages as there were such URLs
	// count as grown by others, at least nearby and at most mostAbroad: two hosts that lead to each
	// other may be asked in turns of hundreds.
	mostAbroad = 255
	// A part lives for so many pages after one that brought something: as long as one in ten does, if there were livelyLeast of them; before, as long as
	// half of its pages did. One of fewer than fewSeen pages is not known.
	lively  = 10
	fewSeen = 4
	// maxProbes: once a host that brought livelyLeast pages brings nothing new, so many pages of
	// parts that are not known are tried. It is not left as a whole while its parts that live have
	// brought livelyLeast pages.
	maxProbes   = 64
	livelyLeast = 8
	// A page counts as a repeat if its like was met often times in the same part of late, or most
	// times anywhere on the host: mirrors and versions of one tree are none. exactly is that number
	// for the same words on plain paths, as languages times versions are many.
	often   = 4
	most    = 32
	exactly = 64

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
	Known bool // the body was met before
	// Failed: there was no page, but an error.
	Failed bool
	// Links of the page to its own host, and how many of them were new to the host's URL set.
	Links, New int
	// Came is how many URLs of the host came from elsewhere since the page before.
	Came int
}

// State is what is remembered of a host in one job. The zero value is that of a host of which nothing is known.
type State struct {
	seen    uint64 // pages
	repeats uint64 // of them
	news    uint64 // of them, those that brought something
	score   uint32 // by what pages say
	near    uint32 // the same if they say almost what others say
	links   uint32 // the same by where they lead
	top     uint32 // the highest score of host, shapes and areas so far
	since   uint8  // pages since a repeat brought something, at most nearby+1
	abroad  uint8  // pages that URLs from elsewhere stand for, at most mostAbroad
	mazed   uint8  // pages since one of a maze, at most nearby+1
	probed  uint8  // pages of parts that are not known that were asked for since the host brings nothing new
	text    prints
	all     prints
	exact   prints
	groups  []group // shapes, areas and tails
	forms   []group
	// The least number of known links of a page, in this block of pages and in the one before.
	least, leastBefore uint32
}

// keys are those of the parts that a page is of; 0 where there is none.
type keys [kinds]uint32

const (
	atShape = iota
	atArea  // and the next
	_
	atAsked
	atTail
	atForm

	kinds
)

// wide says whether a kind of part holds several forms.
func wide(kind int) bool { return kind >= atArea && kind <= atAsked }

// places are what is left of keys in memory: enough to tell whether a page was met in the same part.
type places [kinds]uint8

func (k *keys) places() (p places) {
	for i, key := range k {
		p[i] = uint8(key) //nolint:gosec // the lowest byte
	}
	return p
}

// met is a print, how often, and in which two parts of each kind last, as parts may say the same in turn.
type met struct {
	bits uint64
	hits uint8
	at   [2]places
}

// here notes where a print is met, and says in which parts of those it was met before.
func (m *met) here(at *places) (before [kinds]bool) {
	for i, place := range at {
		if before[i] = m.at[0][i] == place || m.at[1][i] == place; m.at[0][i] != place {
			m.at[0][i], m.at[1][i] = place, m.at[0][i]
		}
	}
	return before
}

// prints are those met last, the latest at the end.
type prints []met

// group is a part of a host: a shape, an area, a tail or a form.
type group struct {
	key   uint32
	score uint32 // by repeats that are exact
	near  uint32 // the same by all repeats
	seen  uint32 // pages
	news  uint32 // of them, those that brought something
	fresh uint8  // for how many more pages it lives
	since uint8  // pages since one of it that was not new itself brought something, at most nearby+1
	last  uint64 // State.seen when it was met last
}

// lives says whether one of the last pages of a part brought something, and more of it did than is by chance.
func (g *group) lives() bool { return g.fresh > 0 && (g.news >= livelyLeast || 2*g.news >= g.seen) }

// worst is how far a part has come.
func (g *group) worst() uint32 { return max(g.score, g.near) }

// Seen is the number of pages observed.
func (s *State) Seen() uint64 { return s.seen }

// meet says how often a print within so many bits of this one was met before and in which parts of late, and remembers it.
func (p *prints) meet(bits uint64, within int, at *places, room int) (hits int, before [kinds]bool) {
	list := *p
	for i, known := range slices.Backward(list) {
		if distance(known.bits, bits) > within {
			continue
		}
		copy(list[i:], list[i+1:])
		hits, before = int(known.hits), known.here(at)
		known.hits = min(known.hits, math.MaxUint8-1) + 1
		list[len(list)-1] = known
		return hits, before
	}
	if len(list) >= room {
		list = append(list[:0], list[len(list)-room+1:]...)
	}
	*p = append(list, met{bits, 1, [2]places{*at, *at}})
	return 0, before
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

// growth says whether more URLs of a host come as its pages repeat, and from where.
type growth uint8

const (
	still  growth = iota
	abroad        // pages of other hosts bring them
	grows
)

// Observe notes a page. Pages is the number of strong repeats in a row that makes a trap.
func (s *State) Observe(p Page, pages int) {
	s.seen++
	if s.seen == 1 {
		s.since, s.mazed = nearby+1, nearby+1
	}
	at := keysOf(p.URL)
	host, parts := s.judge(&p, at)
	tree := s.tree(&p)
	if host >= evNear {
		s.repeats++
	}
	if host == evNew {
		s.news++
	}
	how := s.grow(&p, host, tree)
	stop := limit(pages)
	s.score = step(s.score, hostWeight(host, how, p.Failed), stop)
	s.near = step(s.near, likeWeight(host, how == grows), stop)
	if host < evWeak || p.Failed { // what says exactly the same is judged by that
		s.links = step(s.links, linkWeight(&p, tree, how == grows && s.links > 0), stop)
	}
	s.top = max(s.top, s.score, s.near, s.links)
	for i, key := range at {
		if key == 0 || p.Failed && i != atForm {
			continue // an address that is nowhere says nothing of those like it, but that its form is known
		}
		g := s.group(i, key)
		g.seen++
		g.last = s.seen
		if !p.Failed {
			s.part(g, i, parts[i], host == evNew, &p, stop)
		}
	}
	if form := s.find(atForm, at[atForm]); host == evNew && form.seen <= fewSeen {
		s.probed -= min(s.probed, lively) // what was asked for to see has shown something
	}
}

// grow notes whether the host grows. That pages of a maze bring URLs says something of the errors among them alone.
func (s *State) grow(p *Page, host evidence, t tree) growth {
	s.since, s.abroad, s.mazed = min(s.since+1, nearby+1), s.abroad-min(s.abroad, 1), min(s.mazed+1, nearby+1)
	repeat := host >= evNear
	if repeat && p.New > 0 {
		s.since = 0
	}
	if t == maze {
		s.mazed = 0
	}
	if repeat && p.Came > 0 && !p.Failed {
		s.abroad = max(s.abroad, uint8(min(max(p.Came, nearby+1), mostAbroad))) //nolint:gosec // bounded
	}
	switch {
	case s.since <= nearby, p.Failed && s.mazed <= nearby:
		return grows
	case s.abroad > 0:
		return abroad
	default:
		return still
	}
}

// part notes a page of a part; fresh says that it is new to the host as well.
func (s *State) part(g *group, i int, e evidence, fresh bool, p *Page, stop uint32) {
	switch {
	case fresh:
		g.fresh = lively
		g.news++
	case g.fresh > 0:
		g.fresh--
	}
	g.since = min(g.since+1, nearby+1)
	if !fresh && p.New > 0 {
		g.since = 0
	}
	how := still
	switch {
	case g.since <= nearby:
		how = grows
	case s.abroad > 0:
		how = abroad
	}
	g.score = step(g.score, partWeight(e, how), stop)
	if !wide(i) { // the lists of an area bring what lies in it
		g.near = step(g.near, likeWeight(e, how == grows), stop)
	}
	s.top = max(s.top, g.worst())
}

// judge says what a page's words are to the host, and to its parts: there it is a repeat only if it was met there before.
func (s *State) judge(p *Page, keys keys) (host evidence, parts [kinds]evidence) {
	at := keys.places()
	switch {
	case p.Failed:
		return evStrong, parts
	case p.All == 0 && p.Known:
		for i := range parts {
			parts[i] = evNothing
		}
		return evNothing, parts
	case p.All == 0:
		return evNew, parts
	}
	all, like := s.all.meet(p.All, Near, &at, maxPrints)
	text, _ := s.text.meet(p.Text, Near, &at, maxTexts)
	exact, same := s.exact.meet(cmp.Or(p.Words, p.All), 0, &at, maxExact)
	here := often
	if p.Words != 0 && !generated(p.URL) {
		here = exactly
	}
	near, strong := all >= most, all >= most && exact >= max(here, most)
	for i := range parts {
		switch {
		case keys[i] == 0 || all == 0:
		case all >= often && like[i]:
			parts[i], near = evNear, true
			if exact >= here && same[i] {
				parts[i], strong = evStrong, true
			}
		default:
			parts[i] = evNothing
		}
	}
	switch {
	case strong:
		return evStrong, parts
	case near:
		return evNear, parts
	case text >= most && exact >= most:
		return evWeak, parts
	case all > 0 || text > 0:
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

// table returns where the parts of a kind are kept, and how many of them.
func (s *State) table(kind int) (list *[]group, room int) {
	if kind == atForm {
		return &s.forms, maxForms
	}
	return &s.groups, maxGroups
}

// group returns the part of a key, made in the place of the one that matters least where there is no room.
func (s *State) group(kind int, key uint32) *group {
	list, room := s.table(kind)
	least := 0
	for i := range *list {
		g := &(*list)[i]
		if g.key == key {
			return g
		}
		if g.before(&(*list)[least]) {
			least = i
		}
	}
	if len(*list) < room {
		*list = append(*list, group{})
		least = len(*list) - 1
	}
	(*list)[least] = group{key: key, since: nearby + 1}
	return &(*list)[least]
}

// before says which of two parts is dropped first for want of room: the one that has come less far,
// else the one that does not live, else the one met longer ago.
func (g *group) before(o *group) bool {
	if g.worst() != o.worst() {
		return g.worst() < o.worst()
	}
	if g.lives() != o.lives() {
		return o.lives()
	}
	return g.last < o.last
}

// find returns the part of a key, nil if it is not known.
func (s *State) find(kind int, key uint32) *group {
	list, _ := s.table(kind)
	for i := range *list {
		if g := &(*list)[i]; g.key == key {
			return g
		}
	}
	return nil
}
