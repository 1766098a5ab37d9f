package novelty

import (
	"fmt"
	"math"

	"github.com/apoidea/apoidea/crawl/shape"
)

// Verdict is what a host's pages so far say of one URL.
type Verdict struct {
	// Stop: it is not to be fetched. Why says for people what was seen.
	Stop bool
	Why  string
	// Last: other URLs of the host go first.
	Last bool
}

const (
	// lastShare: a part goes behind the rest of its host from this part of the way on.
	lastShare = 8
	// thinFrom: once its links have come this part of the way to a maze, one URL of thin goes
	// first, so that the ends of a tree come to light before all of its branches were asked for.
	thinFrom = 4
	thin     = 16
	thinNew  = 4 // the same of parts that are not known
)

// Host says whether the host is a trap, and why; but for parts of it that live, see Verdict.
func (s *State) Host(pages int) (stop bool, why string) {
	switch stop := limit(pages); {
	case s.rest.maze >= stop:
		return true, fmt.Sprintf("the last pages of the host lead to ever new URLs and to none that other pages lead to (%d pages were seen; %s)", s.seen, flagNote(pages))
	case s.rest.empty >= stop:
		return true, fmt.Sprintf("the last pages of the host brought nothing new, unless it was more URLs (%d of %d said nothing of their own; %s)",
			s.empties, s.seen, flagNote(pages))
	default:
		return false, ""
	}
}

// Why says for people what of the host is left, and why; empty if nothing is.
func (s *State) Why(pages int) string {
	_, why := s.Host(pages)
	if why == "" && s.left != "" {
		why = fmt.Sprintf("the last pages of its part %s brought nothing new, unless it was more URLs (%s)", s.left, flagNote(pages))
	}
	return why
}

// Whole says whether all of the host is to be left: it is a trap, and has no part that brings
// anything.
func (s *State) Whole(pages int) bool {
	if trap, _ := s.Host(pages); !trap {
		return false
	}
	maze := s.rest.maze >= limit(pages)
	if !maze && s.rest.news >= livelyLeast && s.probed < maxProbes {
		return false
	}
	for i := range s.parts {
		if g := &s.parts[i]; s.worthy(g) && (!maze || g.settled()) {
			return false
		}
	}
	return true
}

// Sitemaps says why no more sitemaps are to be asked for; empty if they may be.
func (s *State) Sitemaps(pages int) (why string) {
	if s.lists < limit(pages) {
		return ""
	}
	return fmt.Sprintf("the last sitemaps of the host named nothing but more sitemaps, or pages that say nothing (%s)", flagNote(pages))
}

func flagNote(pages int) string { return fmt.Sprintf("--novelty %d", pages) }

// Verdict judges a URL that is about to be asked for by its part and by its host.
func (s *State) Verdict(url string, pages int) Verdict {
	g, _ := s.find(url)
	stop := limit(pages)
	if g != nil && g.worst() >= stop {
		wide, narrow := shape.Parts(url)
		if narrow != "" && s.at(shape.Hash(narrow)) == g {
			wide = narrow
		}
		return Verdict{Stop: true, Why: fmt.Sprintf("the last pages of %s brought nothing new, unless it was more URLs (%d pages of it were seen; %s)", wide, g.seen, flagNote(pages))}
	}
	if trap, why := s.Host(pages); trap && !s.passes(g, stop) {
		return Verdict{Stop: true, Why: why}
	}
	if !g.known() {
		return Verdict{Last: s.thins(&s.rest, url, thinNew, stop)}
	}
	last := g.empty*lastShare >= stop || !s.worthy(g) && s.rest.empty*lastShare >= stop
	return Verdict{Last: last || s.thins(g, url, thin, stop) || !g.settled() && s.thins(&s.rest, url, thin, stop)}
}

// thins says whether a URL goes behind others as its part may be a maze.
func (s *State) thins(g *part, url string, of, stop uint32) bool {
	return g.maze*thinFrom >= stop && s.mazed <= nearby && shape.Hash(url)%of != 0
}

// passes says whether a URL of a host that is a trap is fetched all the same: its part lives, or is
// not known yet and may be tried.
func (s *State) passes(g *part, stop uint32) bool {
	switch {
	case s.rest.maze >= stop:
		return g.settled() && s.worthy(g)
	case s.worthy(g):
		return true
	case g.known() || s.rest.news < livelyLeast || s.probed >= maxProbes:
		return false
	default:
		s.probed++
		return true
	}
}

// Ahead is how many URLs, of so many, the host may be asked for before the answers to the earlier
// ones were looked at. It falls to an eighth as the host, or a part of it, comes nearer to a trap:
// what is ahead when the verdict comes is asked for in vain.
func (s *State) Ahead(pages, most int) int {
	stop := limit(pages)
	worst := s.worst(stop)
	return max(int(float64(most)*(1-float64(worst)/float64(stop))), most/8, 1)
}

// Share is how far the host, or the part of it that is furthest, has come on the way to a trap: 1
// is one.
func (s *State) Share(pages int) float64 {
	return min(float64(s.worst(math.MaxUint32))/float64(limit(pages)), 1)
}

// worst is the largest account below a bound.
func (s *State) worst(below uint32) (worst uint32) {
	for _, g := range append(s.parts, s.rest) {
		for _, n := range []uint32{g.empty, g.maze} {
			if n < below {
				worst = max(worst, n)
			}
		}
	}
	return worst
}
