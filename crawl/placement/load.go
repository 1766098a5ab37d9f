package placement

import "slices"

// overloadedShare of its capacity in hand makes a candidate overloaded. It is short of the whole,
// since what a peer told of itself is some seconds old and windows of URLs were on their way to it
// meanwhile.
const overloadedShare = 0.9

// Overloaded says that the candidate has about as much in hand as it can hold. One that told
// nothing yet is not.
func (c *Candidate) Overloaded() bool { return c.Load() >= overloadedShare }

// Load is the share of its capacity that the candidate has in hand.
func (c *Candidate) Load() float64 {
	if c.Capacity == 0 {
		return 0
	}
	return float64(c.Backlog) / float64(c.Capacity)
}

// Able are the candidates that are not overloaded, in their order (design, section 5). If every one
// is overloaded it is all of them, as somebody has to crawl the host. The slice may be the view's
// own, and must not be changed.
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

// keeper is who has the host where nothing speaks for anybody: the owner, or else the first of
// those to choose from; empty if there is none.
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

// unmeasured are those of whom there is no measurement yet.
func (v *View) unmeasured(of []Candidate) []string {
	var out []string
	for _, c := range of {
		if _, ok := v.Measured[c.Peer]; !ok {
			out = append(out, c.Peer)
		}
	}
	return out
}
