package placement

import (
	"fmt"
	"slices"
	"time"
)

// RTT is the paper's delegation (Apoidea, 3.2): the owner and its leaf peers measure the round trip
// to the site, and the smallest wins.
//
// Beyond the paper: results within tieFloor of the best are ties, since they do not predict the
// faster download; of the tied ones the owner keeps the host, which costs no message, or else the
// peer with the smallest backlog gets it. A host with few URLs is not probed: the known worker of
// its address range gets it, or the owner (design, section 4). An overloaded candidate is neither
// probed nor chosen.
type RTT struct{}

// tieFloor is the scheduling noise of a round trip on a busy machine.
const tieFloor = time.Millisecond

// Next implements Strategy.
func (RTT) Next(v *View) Choice {
	able := v.Able()
	if v.Tiny {
		if v.Known != "" && slices.ContainsFunc(able, func(c Candidate) bool { return c.Peer == v.Known }) {
			return Choice{Worker: v.Known, Unsure: true, Why: "few URLs: the known worker of the address range"}
		}
		return Choice{Worker: keeper(able), Unsure: true, Why: "few URLs: not worth probing, the owner keeps the host"}
	}
	if probe := v.unmeasured(able); len(probe) > 0 && len(able) > 1 {
		return Choice{Probe: probe}
	}
	return v.nearest(able)
}

// nearest chooses among the able candidates by the present measurements.
func (v *View) nearest(able []Candidate) Choice {
	best := time.Duration(-1)
	answered := 0
	for _, c := range able {
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
		return Choice{Worker: keeper(able), Why: "no candidate reached the site: the owner keeps the host"}
	}
	limit := best + tieFloor
	var winner *Candidate
	for i := range able {
		c := &able[i]
		if m, ok := v.Measured[c.Peer]; !ok || m.Err != "" || m.RTT > limit {
			continue
		}
		if winner == nil || !winner.Self && (c.Self || c.Load() < winner.Load()) {
			winner = c
		}
	}
	rtt := v.Measured[winner.Peer].RTT
	why := fmt.Sprintf("%v to the site, the smallest of %d that measured", rtt, answered)
	if rtt > best {
		why = fmt.Sprintf("%v to the site, a tie: the smallest of %d measurements is %v", rtt, answered, best)
	}
	return Choice{Worker: winner.Peer, Why: why}
}
