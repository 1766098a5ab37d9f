package placement

import (
	"fmt"
	"time"
)

// Worst selects the candidate with the largest round trip to the site: the worst case (IPMicra's
// comparison, papers 2.6). For experiments only, so [New] does not accept it.
type Worst struct{}

// Next implements Strategy.
func (Worst) Next(v *View) Choice {
	able := v.Able()
	if probe := v.unmeasured(able); len(probe) > 0 && len(able) > 1 {
		return Choice{Probe: probe}
	}
	worker, largest := "", time.Duration(-1)
	for _, c := range able {
		if m, ok := v.Measured[c.Peer]; ok && m.Err == "" && m.RTT > largest {
			worker, largest = c.Peer, m.RTT
		}
	}
	if worker == "" {
		return Choice{Worker: keeper(able), Why: "no candidate reached the site: the owner keeps the host"}
	}
	return Choice{Worker: worker, Why: fmt.Sprintf("%v to the site, the largest", largest)}
}
