package novelty

import "fmt"

// Verdict is what a host's pages so far say of one URL.
type Verdict struct {
	// Stop: it is not to be fetched. Why says for people what was seen.
	Stop bool
	Why  string // what was seen, in words
	// Last: other URLs of the host go first. A part that this one is of is half of the way to a
	// trap, or a sixteenth by near duplicates, and the host as a whole is not.
	Last bool
}

// earlyShare: pages that say almost the same go behind other URLs of their host from this part of
// the way on. They take long to be told from a trap, and a budget of requests is for what is new.
const earlyShare = 16

// Host says whether the host is a trap, and why; but for parts of it that live, see Verdict.
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

// passes says whether a URL of a host that is a trap is fetched all the same: its form lives, or is
// not known yet and may be tried.
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
	if s.top*earlyShare < stop {
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
		case g.worst()*2 >= stop, g.near*earlyShare >= stop:
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

// Ahead is how many URLs, of so many, the host may be asked for before the answers to the earlier
// ones were looked at. It falls to an eighth as the host comes nearer to a trap: what is ahead when
// the verdict comes is asked for in vain.
func (s *State) Ahead(pages, most int) int {
	way := min(float64(max(s.score, s.near, s.links))/float64(limit(pages)), 1)
	return max(int(float64(most)*(1-way)), most/8, 1)
}

// Share is how far the host, or the part of it that is furthest, has come on the way to a trap: 1 is one.
func (s *State) Share(pages int) float64 { return min(float64(s.top)/float64(limit(pages)), 1) }
