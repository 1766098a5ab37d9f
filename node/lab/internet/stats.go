package internet

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Stats describe the RTTs between some hosts.
type Stats struct {
	Hosts   int     `json:"hosts"`   // their number
	Missing float64 `json:"missing"` // fraction of pairs without a value
	// P10, Median and P90 of all pairs with a value, in milliseconds.
	P10    float64 `json:"p10_ms"`
	Median float64 `json:"median_ms"`
	P90    float64 `json:"p90_ms"`
}

// statHosts is the number of hosts in Stats.
const statHosts = 490

// Stats describes the internet by up to 490 of its hosts: all nodes of a matrix or, if there are
// more, some drawn with a fixed seed; in a synthetic internet half crawlers and half sites.
func (n *Internet) Stats() Stats {
	hosts := n.statHosts()
	st := Stats{Hosts: len(hosts)}
	var known []time.Duration
	for a, i := range hosts {
		for _, j := range hosts[:a] {
			if d := n.RTT(i, j); d >= 0 {
				known = append(known, d)
			}
		}
	}
	if len(known) == 0 {
		return st
	}
	slices.Sort(known)
	at := func(share float64) float64 {
		return float64(known[int(share*float64(len(known)-1))].Microseconds()) / 1000
	}
	st.P10, st.Median, st.P90 = at(0.1), at(0.5), at(0.9)
	pairs := len(hosts) * (len(hosts) - 1) / 2
	st.Missing = 1 - float64(len(known))/float64(pairs)
	return st
}

// statHosts returns the hosts in Stats.
func (n *Internet) statHosts() []int {
	rnd := rand.New(rand.NewPCG(statHosts, 0x7374617473))
	if size := n.Size(); size > 0 {
		return rnd.Perm(size)[:min(size, statHosts)]
	}
	p, s, _ := n.Draw(rnd, statHosts/2, statHosts/2) // the internet is unlimited
	return append(p, s...)
}
