package adaptive

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Lesson is what was measured of a site. Owners that tell each other theirs learn as one: what one had measured, none has to measure again.
type Lesson struct {
	Host string
	Site netip.Addr // zero if it is not known
	RTTs []PeerRTT  // in ascending order of peers
	// Whole says that most of those were asked who could have been.
	Whole bool
}

// PeerRTT is a round trip that a peer measured.
type PeerRTT struct {
	Peer string
	RTT  time.Duration
}

// maxLessons bounds the lessons that wait to be told; the oldest are dropped.
const maxLessons = 256

// Lessons returns what was learnt by the strategy's own placements since it was asked last, the oldest first.
func (s *Strategy) Lessons() []Lesson {
	all := s.lessons
	s.lessons = nil
	return all
}

// teach notes a lesson for others.
func (s *Strategy) teach(q *question, whole bool) {
	l := Lesson{Host: q.view.Host, Site: q.view.Site, Whole: whole}
	for _, c := range q.view.Candidates {
		if m, ok := q.view.Measured[c.Peer]; ok && m.Err == "" {
			l.RTTs = append(l.RTTs, PeerRTT{c.Peer, m.RTT})
		}
	}
	slices.SortFunc(l.RTTs, func(a, b PeerRTT) int { return strings.Compare(a.Peer, b.Peer) })
	if len(s.lessons) >= maxLessons {
		s.lessons = slices.Delete(s.lessons, 0, len(s.lessons)-maxLessons+1)
	}
	s.lessons = append(s.lessons, l)
}

// Learn takes a lesson of another owner. Of its round trips no more count than peers are remembered; those beyond maxRTT or not above zero do not.
func (s *Strategy) Learn(l *Lesson) {
	q := &question{hints: hintsOf(l.Site, s.cfg.Atlas), key: key(l.Host, l.Site), addressed: l.Site.IsValid()}
	q.memory = s.memories.find(q.key)
	for _, r := range l.RTTs[:min(len(l.RTTs), s.cfg.Peers)] {
		if r.RTT > 0 && r.RTT <= maxRTT {
			p := s.memories.column(r.Peer)
			q.peers, q.seen = append(q.peers, p), append(q.seen, observation{p.number, milliseconds(r.RTT)})
		}
	}
	for _, p := range s.memories.peers() {
		if !slices.Contains(q.peers, p) {
			q.peers = append(q.peers, p)
		}
	}
	s.placed++
	s.remember(q, l.Whole)
}

// maxRTT is the largest round trip that another's lesson is believed.
const maxRTT = time.Minute
