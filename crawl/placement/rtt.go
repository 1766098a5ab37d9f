package placement

import (
	"fmt"
	"time"
)

// RTT is the paper's delegation (Apoidea, 3.2): the owner and its leaf peers measure the round trip to the site, and the smallest wins.
//
// Beyond the paper: results within tieFloor or tieShare of the best are ties, since they say nothing about who downloads faster; of the tied the
// owner keeps the host, which costs no message, or else the peer with the least backlog takes it. A host with few URLs is not probed: the worker
// known for its address range takes it, or the owner (design, section 4).
type RTT struct{}

const (
	// tieFloor is what scheduling on a busy machine adds to a round trip.
	tieFloor = time.Millisecond
	// tieShare of the best: jitter of a wide-area path.
	tieShare = 0.1
)

// Next implements Strategy.
func (RTT) Next(v *View) Choice {
	if v.Tiny {
		if v.Known != "" && v.has(v.Known) {
			return Choice{Worker: v.Known, Why: "few URLs: the worker known for the address range"}
		}
		return Choice{Worker: v.self(), Why: "few URLs: not worth probing, the owner keeps the host"}
	}
	var probe []string
	for _, c := range v.Candidates {
		if _, ok := v.Measured[c.Peer]; !ok {
			probe = append(probe, c.Peer)
		}
	}
	if len(probe) > 0 && len(v.Candidates) > 1 {
		return Choice{Probe: probe}
	}
	return v.nearest()
}

// nearest chooses by the measurements there are.
func (v *View) nearest() Choice {
	best := time.Duration(-1)
	answered := 0
	for _, c := range v.Candidates {
		m, ok := v.Measured[c.Peer]
		if !ok || m.Err != "" {
			continue
		}
		answered++
		if best < 0 || m.RTT < best {
			best = m.RTT
		}
	}
	if best < 0 {
		return Choice{Worker: v.self(), Why: "no candidate reached the site: the owner keeps the host"}
	}
	limit := best + max(tieFloor, time.Duration(float64(best)*tieShare))
	var winner *Candidate
	for i := range v.Candidates {
		c := &v.Candidates[i]
		if m, ok := v.Measured[c.Peer]; !ok || m.Err != "" || m.RTT > limit {
			continue
		}
		if winner == nil || !winner.Self && (c.Self || load(c) < load(winner)) {
			winner = c
		}
	}
	return Choice{
		Worker: winner.Peer,
		Why:    fmt.Sprintf("%v to the site, the best of %d that measured is %v", v.Measured[winner.Peer].RTT, answered, best),
	}
}

// load is the share of its capacity that a candidate has in hand.
func load(c *Candidate) float64 {
	if c.Capacity == 0 {
		return 0
	}
	return float64(c.Backlog) / float64(c.Capacity)
}
