package adaptive

import (
	"cmp"
	"math"
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

const (
	// tie is the difference in milliseconds below which two round trips count as equal: scheduling
	// noise is as large.
	tie = 1.0
	// asSure is the prior number of draws after a probe: a narrow window has few draws, which would
	// appear more certain than they are.
	asSure = 1.0
)

// judgement is the result of the draws for the candidates.
type judgement struct {
	best []float64 // by candidate: share of the draws in which it is within tie of the best one
	mean []float64 // by candidate: mean merit over the draws
	late []float64 // by candidate: mean milliseconds behind the best one
	gain []float64 // by candidate: expected increase of the choice's merit by a probe of it; 0 if it was measured

	merit  [][]float64 // by draw and candidate: 1 for the best one, less than 0 for large losses
	order  []result
	sums   []float64
	likely []int
}

// result is the result of a probe in a draw.
type result struct {
	ms   float64
	draw int
}

const (
	// maxLoss bounds the counted distance, in milliseconds: one bad draw must not dominate.
	maxLoss = 200
	// dear is the distance in milliseconds whose loss equals the gain of a right choice.
	dear = 150.0
)

// judge computes best, mean and late. Lag makes slow candidates appear farther away.
func (j *judgement) judge(draws [][]float64, lag []float64) {
	n := len(lag)
	j.best, j.mean, j.late = zeros(j.best, n), zeros(j.mean, n), zeros(j.late, n)
	j.merit = resize(j.merit, len(draws))
	for d, y := range draws {
		least := math.Inf(1)
		for k, v := range y {
			least = min(least, v+lag[k])
		}
		j.merit[d] = resize(j.merit[d], n)
		for k, v := range y {
			behind := v + lag[k] - least
			if behind <= tie {
				j.best[k] += 1 / float64(len(draws))
				j.merit[d][k] = 1
			} else {
				j.merit[d][k] = -min(behind, maxLoss) / dear
			}
			j.late[k] += min(behind, maxLoss) / float64(len(draws))
			j.mean[k] += j.merit[d][k] / float64(len(draws))
		}
	}
}

// choose returns the candidate with the largest merit.
func (j *judgement) choose() int {
	choice := 0
	for k := range j.mean {
		if j.mean[k] > j.mean[choice] {
			choice = k
		}
	}
	return choice
}

// maxValued bounds the candidates whose probes are valued: those most likely to be the best one.
const maxValued = 8

// value computes gain for unmeasured candidates: for each draw as the truth, the merit of the best
// choice in the draws with about the same result. Where no probe can reach the minimum gain, as no
// merit is over 1, all gains are 0.
func (j *judgement) value(draws [][]float64, measured []bool, least float64) {
	j.gain, j.likely = zeros(j.gain, len(measured)), j.likely[:0]
	now := slices.Max(j.mean)
	if 1-now < least {
		return
	}
	for k, known := range measured {
		if !known && j.best[k] > 0 {
			j.likely = append(j.likely, k)
		}
	}
	slices.SortFunc(j.likely, func(a, b int) int { return cmp.Or(cmp.Compare(j.best[b], j.best[a]), cmp.Compare(a, b)) })
	for _, k := range j.likely[:min(len(j.likely), maxValued)] {
		j.gain[k] = max(j.after(draws, k)-now, 0)
	}
}

// after returns the expected merit of the choice after a probe of k.
func (j *judgement) after(draws [][]float64, k int) float64 {
	j.order = resize(j.order, len(draws))
	for d := range draws {
		j.order[d] = result{draws[d][k], d}
	}
	slices.SortFunc(j.order, func(a, b result) int {
		if a.ms < b.ms {
			return -1
		}
		if a.ms > b.ms {
			return 1
		}
		return a.draw - b.draw
	})
	j.sums = zeros(j.sums, len(j.best))
	low, high, total := 0, 0, 0.0
	for _, at := range j.order {
		wide := tie/2 + at.ms/100
		for ; high < len(j.order) && j.order[high].ms <= at.ms+wide; high++ {
			j.move(j.order[high].draw, 1)
		}
		for ; j.order[low].ms < at.ms-wide; low++ {
			j.move(j.order[low].draw, -1)
		}
		most := math.Inf(-1)
		for c, sum := range j.sums {
			most = max(most, sum+asSure*j.mean[c])
		}
		total += most / (float64(high-low) + asSure)
	}
	return total / float64(len(draws))
}

// move adds a draw to the window, or removes it.
func (j *judgement) move(draw int, by float64) {
	for c, m := range j.merit[draw] {
		j.sums[c] += by * m
	}
}

// zeros is resize, with zeros.
func zeros(s []float64, n int) []float64 {
	s = resize(s, n)
	clear(s)
	return s
}
