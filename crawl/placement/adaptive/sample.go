package adaptive

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Sample is what came of placing a site. Owners that tell each other theirs learn as one: what one
// had measured, none has to measure again, and they keep one budget.
//
// A peer is a site too, and how far it is from others they know without a probe: they talk with it
// all the time. [PeerSample] says so.
type Sample struct {
	Host string     // that was placed
	Site netip.Addr // zero if it is not known
	RTTs []PeerRTT  // that were measured, in ascending order of peers; none if the site was placed without
	// Whole says that most of those measured who could have.
	Whole bool
	// Asked is how many probes the placement took, Of among how many candidates: none if nothing
	// was placed.
	Asked, Of int
	// Worth of the site and of those that were placed without a probe since the last sample, of
	// which nothing is told: 1 for each of usual size, less for smaller ones.
	Worth float64
	// Hops is how many owners passed it on.
	Hops int
}

// PeerSample is a peer as a site: what it measured of those with whom it talks, in ascending order
// of peers. A site beside the peer is nearest to it, whatever it says of itself.
func PeerSample(peer string, at netip.Addr, rtts []PeerRTT) Sample {
	own := slices.DeleteFunc(slices.Clone(rtts), func(r PeerRTT) bool { return r.Peer == peer })
	own = append(own, PeerRTT{peer, beside})
	slices.SortFunc(own, func(a, b PeerRTT) int { return strings.Compare(a.Peer, b.Peer) })
	return Sample{Host: peer, Site: at, RTTs: own, Whole: true}
}

// beside is the round trip to a site that stands where a peer does.
const beside = time.Millisecond

// PeerRTT is a round trip that a peer measured.
type PeerRTT struct {
	Peer string        // who measured
	RTT  time.Duration // what it measured
}

// maxSamples bounds the samples that wait to be told; the oldest are dropped.
const maxSamples = 256

// Samples returns what was learnt by the strategy's own placements since it was asked last, the
// oldest first.
func (s *Strategy) Samples() []Sample {
	all := s.samples
	s.samples = nil
	return all
}

// teach notes a sample for others.
func (s *Strategy) teach(q *question, asked int, whole bool) {
	l := Sample{Host: q.view.Host, Site: q.view.Site, Whole: whole, Asked: asked, Of: len(q.able), Worth: q.worth + s.unasked}
	s.unasked = 0

	for _, c := range q.view.Candidates {
		if m, ok := q.view.Measured[c.Peer]; ok && m.Err == "" {
			l.RTTs = append(l.RTTs, PeerRTT{c.Peer, m.RTT})
		}
	}
	slices.SortFunc(l.RTTs, func(a, b PeerRTT) int { return strings.Compare(a.Peer, b.Peer) })
	s.tell(l)
}

func (s *Strategy) tell(l Sample) {
	if len(s.samples) >= maxSamples {
		s.samples = slices.Delete(s.samples, 0, len(s.samples)-maxSamples+1)
	}
	s.samples = append(s.samples, l)
}

// Learn takes a sample of another owner, which came now. Of its round trips no more count than
// peers are remembered; those beyond maxRTT or not above zero do not, nor do more probes than
// candidates.
func (s *Strategy) Learn(now time.Time, l *Sample) {
	s.tick(now)
	q := &question{hints: hintsOf(l.Site, s.cfg.Atlas), host: l.Host, key: key(l.Host, l.Site), addressed: l.Site.IsValid(), worth: min(max(l.Worth, 0), maxWorth)}
	q.memory = s.memories.find(q.key)
	for _, r := range l.RTTs[:min(len(l.RTTs), s.cfg.Peers)] {
		if r.RTT > 0 && r.RTT <= maxRTT {
			p := s.memories.column(r.Peer)
			q.peers, q.seen = append(q.peers, p), append(q.seen, observation{p.number, milliseconds(r.RTT)})
		}
	}
	if of := min(l.Of, s.cfg.Peers); of > 0 {
		s.pay(q, min(max(l.Asked, 0), of), of)
	}
	s.remember(q, l.Whole)
}

// Connected learns how long a connection took that a worker made to fetch: as much as a probe says,
// for nothing. What was measured at the place of the site of late is no news, unless this is less.
func (s *Strategy) Connected(now time.Time, host string, site netip.Addr, worker string, took time.Duration) {
	s.tick(now)
	c := s.memories.columns[worker]
	if c == nil || took <= 0 || took > maxRTT || s.frozen {
		return
	}
	ms := milliseconds(took)
	if m := s.memories.find(key(host, site)); m != nil && s.fresh(m) && m.expects(c.number, ms) {
		return
	}
	hints := hintsOf(site, s.cfg.Atlas)
	for _, m := range s.memories.all {
		if hints[sameSubnet] != 0 && m.hints[sameSubnet] == hints[sameSubnet] && s.fresh(m) && m.expects(c.number, ms) {
			return
		}
	}
	l := Sample{Host: host, Site: site, RTTs: []PeerRTT{{worker, took}}}
	s.Learn(now, &l)
	s.tell(l)
}

// expects says whether that much, or more, was measured of a column before: machines only ever add
// to a round trip.
func (m *memory) expects(column int, ms float64) bool {
	return column < len(m.cells) && m.cells[column].exact() && ms >= float64(m.cells[column].mean)*0.95-tie/2
}

// maxWorth is what another's sample stands for at most.
const maxWorth = 100

// maxRTT is the largest round trip that another's sample is believed.
const maxRTT = time.Minute
