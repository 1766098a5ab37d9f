package placement

import "slices"

// overloadedShare of its capacity makes a candidate overloaded. It is below one, since a peer's
// last report is some seconds old and windows of URLs may be in transit to it.
const overloadedShare = 0.9

// Overloaded reports whether the candidate holds about as much as it accepts. One without a report
// is not overloaded.
func (c *Candidate) Overloaded() bool { return c.Load() >= overloadedShare }

// Load returns the share of its capacity that the candidate uses.
func (c *Candidate) Load() float64 {
	if c.Capacity == 0 {
		return 0
	}
	return float64(c.Backlog) / float64(c.Capacity)
}

// Able returns the candidates that are not overloaded, in their order (design, section 5). If all
// are overloaded it returns all of them, as one has to crawl the host. The slice may be the view's
// own, and must not be modified.
func (v *View) Able() []Candidate {
	over := func(c Candidate) bool { return c.Overloaded() }
	if !slices.ContainsFunc(v.Candidates, over) {
		return v.Candidates
	}
	able := slices.DeleteFunc(slices.Clone(v.Candidates), over)
	if len(able) == 0 {
		return v.Candidates
	}
	return able
}

// keeper returns the default worker of a host: the owner, or else the first of those to choose
// from; "" if there is none.
func keeper(able []Candidate) string {
	for _, c := range able {
		if c.Self {
			return c.Peer
		}
	}
	if len(able) > 0 {
		return able[0].Peer
	}
	return ""
}

// unmeasured returns the peers without a measurement yet.
func (v *View) unmeasured(of []Candidate) []string {
	var out []string
	for _, c := range of {
		if _, ok := v.Measured[c.Peer]; !ok {
			out = append(out, c.Peer)
		}
	}
	return out
}
