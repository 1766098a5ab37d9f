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
	maxGroups = 128 // parts of a host but for its forms, those met last
	maxForms  = 48  // forms of a host
	nearby    = 64
	// A repeat before which URLs came from elsewhere has the next nearby pages count as grown by others, and as many as there were URLs, up to mostAbroad: two hosts
	// that lead to each other may be asked in turns of hundreds.
	mostAbroad = 255
	// A part lives for so many pages after one that brought something: as long as one in ten does, if there were livelyLeast of them; before, as long as
	// half of its pages did. One of fewer than fewSeen pages is not known.
	lively  = 10
	fewSeen = 4
	// maxProbes pages of parts that are not known are asked for once a host brings nothing new if it brought livelyLeast pages before, and so many of parts
	// that live keep it from being left as a whole.
	maxProbes   = 64
	livelyLeast = 8
	// often is how many times a page has to have been met before it counts as a repeat where its like was met last, most as one anywhere on the
	// host: mirrors and versions of one tree are none. exactly is that number for the same words on plain paths, as languages times versions are many.
	often   = 4
	most    = 32
	exactly = 64

	// What a page adds to a score, and takes off it. Weak evidence counts for a third.
	strongWeight = 50
	abroadWeight = 16 // of a repeat where only others bring more URLs of the host
	weakWeight   = 16
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

// hostWeight is what a page's words add to the score of its host.
func hostWeight(e evidence, how growth, failed bool) int32 {
	switch {
	case e == evNew:
		return -newWeight
	case e == evStrong && how == grows:
		return strongWeight
	case e == evWeak && how == grows:
		return weakWeight
	case e == evStrong && failed:
		return errorWeight
	case e == evStrong && how == abroad:
		return abroadWeight
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

// partWeight is what a page adds to the score of a part of its host.
func partWeight(e evidence, how growth) int32 {
	switch {
	case e == evNew:
		return -newWeight
	case e == evStrong && how == grows:
		return strongWeight
	case e == evStrong && how == abroad:
		return abroadWeight
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

// before orders parts by which goes first where there is no room: that which has come less far, of these the one that does not live, and of these the
// one met longer ago.
func (g *group) before(o *group) bool {
	if g.worst() != o.worst() {
		return g.worst() < o.worst()
	}
	if g.lives() != o.lives() {
		return o.lives()
	}
	return g.last < o.last
}

// Verdict is what a host's pages so far say of one URL.
type Verdict struct {
	// Stop: it is not to be fetched. Why says for people what was seen.
	Stop bool
	Why  string
	// Last: a part that it is of is half of the way to that and the host is not, so other URLs of the host go first.
	Last bool
}

// Host says whether the host is a trap, and why; but for parts of it that live, see Lives.
func (s *State) Host(pages int) (stop bool, why string) {
	switch stop := limit(pages); {
	case s.links >= stop:
		return true, fmt.Sprintf("the last pages of the host lead to ever new URLs and to none that other pages lead to (%d pages were seen; %s)", s.seen, flagNote(pages))
	case s.said(stop):
		return true, fmt.Sprintf("the last pages of the host brought nothing new, unless it was more URLs (%d of %d were near duplicates or errors; %s)",
			s.repeats, s.seen, flagNote(pages))
	default:
		return false, ""
	}
}

// said says whether what the pages of the host say makes it a trap.
func (s *State) said(stop uint32) bool { return s.score >= stop || s.near >= stop }

// Whole says whether all of the host is to be left: it is a trap, and has no part that brings anything.
func (s *State) Whole(pages int) bool {
	switch stop := limit(pages); {
	case s.links >= stop, s.said(stop) && s.news < livelyLeast:
		return true
	case !s.said(stop) || s.probed < maxProbes:
		return false
	}
	news := uint32(0)
	for i := range s.forms {
		if g := &s.forms[i]; g.lives() {
			news += g.news
		}
	}
	return news < livelyLeast
}

// livesAt says whether the form of a key lives.
func (s *State) livesAt(form uint32) bool {
	g := s.find(atForm, form)
	return g != nil && g.lives()
}

// passes says whether a URL of a host that is a trap is fetched all the same: its form lives, or is not known and there are pages to be asked for to see.
func (s *State) passes(form uint32, stop uint32) bool {
	if s.links >= stop {
		return false
	}
	g := s.find(atForm, form)
	switch {
	case g != nil && g.lives():
		return true
	case g != nil && g.seen >= fewSeen || s.news < livelyLeast || s.probed >= maxProbes:
		return false
	default:
		s.probed++
		return true
	}
}

func flagNote(pages int) string { return fmt.Sprintf("--novelty %d", pages) }

// Verdict judges a URL that is about to be asked for by its host and by the parts that it is of.
func (s *State) Verdict(url string, pages int) (v Verdict) {
	stop := limit(pages)
	if s.top*2 < stop {
		return v
	}
	at := keysOf(url)
	for i, key := range at {
		g := s.find(i, key)
		switch {
		case key == 0 || g == nil:
		case g.worst() >= stop && !(wide(i) && s.livesAt(at[atForm])):
			return Verdict{Stop: true, Why: fmt.Sprintf("the last pages of the form %s brought ever new URLs and nothing new otherwise (%d pages of it were seen; %s)",
				form(url, i), g.seen, flagNote(pages))}
		case g.worst()*2 >= stop:
			v.Last = max(s.score, s.near, s.links)*2 < stop
		}
	}
	if trap, why := s.Host(pages); trap && !s.passes(at[atForm], stop) {
		return Verdict{Stop: true, Why: why}
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

// Ahead is how many of so many URLs the host is to be asked for before the answers to them were looked at: the fewer the nearer the host is to a trap, and an eighth at
// least. What is ahead when the verdict comes is asked for in vain.
func (s *State) Ahead(pages, most int) int {
	way := min(float64(max(s.score, s.near, s.links))/float64(limit(pages)), 1)
	return max(int(float64(most)*(1-way)), most/8, 1)
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

// Share is how far the host, or the part of it that is furthest, has come on the way to a trap: 1 is one.
func (s *State) Share(pages int) float64 { return min(float64(s.top)/float64(limit(pages)), 1) }
