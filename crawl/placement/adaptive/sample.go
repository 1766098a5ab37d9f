package adaptive

import (
	"net/netip"
	"slices"
	"strings"
	"time"
)

// Sample is the result of placing a site. Owners that exchange samples learn together: a site
// measured by one need not be measured by the others, and they share one budget.
//
// A peer is a site too, and its distance from others is known without a probe, since they
// communicate all the time: [PeerSample].
type Sample struct {
	Host string     // that was placed
	Site netip.Addr // zero if unknown
	RTTs []PeerRTT  // measurements, in ascending order of peers; none if the site was placed without
	// Whole reports that most candidates measured it.
	Whole bool
	// Asked is the number of probes of the placement, Of the number of candidates: none if nothing was
	// placed.
	Asked, Of int
	// Worth is the value of the site and of those placed without a probe since the last sample, which
	// have none: 1 for each of usual size, less for smaller ones.
	Worth float64
	// Hops is how many owners forwarded it.
	Hops int
}

// PeerSample returns a sample of a peer as a site, with its measurements to other peers, in
// ascending order of peers. The peer itself is nearest to a site beside it, whatever it measured.
func PeerSample(peer string, at netip.Addr, rtts []PeerRTT) Sample {
	own := slices.DeleteFunc(slices.Clone(rtts), func(r PeerRTT) bool { return r.Peer == peer })
	own = append(own, PeerRTT{peer, beside})
	slices.SortFunc(own, func(a, b PeerRTT) int { return strings.Compare(a.Peer, b.Peer) })
	return Sample{Host: peer, Site: at, RTTs: own, Whole: true}
}

// beside is the assumed round trip of a peer to a site at its own location.
const beside = time.Millisecond

// PeerRTT is a round trip that a peer measured.
type PeerRTT struct {
	Peer string        // peer that measured
	RTT  time.Duration // what it measured
}

// maxSamples bounds the samples waiting to be sent; the oldest are dropped.
const maxSamples = 256

// Samples returns what the strategy's own placements have learned since the last call, the oldest
// first.
func (s *Strategy) Samples() []Sample {
	all := s.samples
	s.samples = nil
	return all
}

// teach records a sample for others.
func (s *Strategy) teach(q *question, asked int, whole bool) {
	l := Sample{Host: q.view.Host, Site: q.view.Site, Whole: whole, Asked: asked, Of: len(q.able), Worth: q.worth + s.unasked}
	s.unasked = 0

	for _, c := range q.view.Candidates {
		if m, ok := q.view.Measured[c.Peer]; ok && m.Err == "" {
			l.RTTs = append(l.RTTs, PeerRTT{c.Peer, m.RTT})
		}
	}
	slices.SortFunc(l.RTTs, func(a, b PeerRTT) int { return strings.Compare(a.Peer, b.Peer) })
	s.share(l)
}

func (s *Strategy) share(l Sample) {
	if len(s.samples) >= maxSamples {
		s.samples = slices.Delete(s.samples, 0, len(s.samples)-maxSamples+1)
	}
	s.samples = append(s.samples, l)
}

// Learn adds a sample of another owner, received now. It limits the number of its round trips to
// that of stored peers, and ignores those over maxRTT or not above zero, and probes beyond the
// number of candidates.
func (s *Strategy) Learn(now time.Time, l *Sample) {
	s.tick(now)
	q := &question{hints: hintsOf(l.Site), host: l.Host, key: key(l.Host, l.Site), addressed: l.Site.IsValid(), worth: min(max(l.Worth, 0), maxWorth)}
	q.memory = s.memories.find(q.key)
	for _, r := range l.RTTs[:min(len(l.RTTs), s.memories.maxPeers)] {
		if r.RTT > 0 && r.RTT <= maxRTT {
			p := s.memories.column(r.Peer)
			q.peers, q.seen = append(q.peers, p), append(q.seen, observation{p.number, milliseconds(r.RTT)})
		}
	}
	if of := min(l.Of, s.memories.maxPeers); of > 0 {
		s.pay(q, min(max(l.Asked, 0), of), of)
	}
	s.remember(q, l.Whole)
}

// Connected learns from the connect time of a fetch by a worker, which replaces a probe. It ignores
// it if there is a recent measurement of the site's range that is not larger.
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
	hints := hintsOf(site)
	for _, m := range s.memories.all {
		if hints[sameSubnet] != 0 && m.hints[sameSubnet] == hints[sameSubnet] && s.fresh(m) && m.expects(c.number, ms) {
			return
		}
	}
	l := Sample{Host: host, Site: site, RTTs: []PeerRTT{{worker, took}}}
	s.Learn(now, &l)
	s.share(l)
}

// expects reports whether that much, or more, was measured of a column before: machines only ever
// add to a round trip.
func (m *memory) expects(column int, ms float64) bool {
	return column < len(m.cells) && m.cells[column].exact() && ms >= float64(m.cells[column].mean)*0.95-tie/2
}

// maxWorth bounds the value of another owner's sample.
const maxWorth = 100

// maxRTT is the largest round trip accepted in another owner's sample.
const maxRTT = time.Minute
