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
	Median float64 `json:"median_ms"` // of all pairs, in milliseconds
	P90    float64 `json:"p90_ms"`    // of all pairs, in milliseconds
	// Violations is the fraction of triangles with a longest side above the sum of the other two,
	// Violations10 that of those above it by more than 10%.
	Violations   float64 `json:"violations"`
	Violations10 float64 `json:"violations_10"` // longer by more than 10%
	// Detours is the fraction of pairs with a shorter path over a third host. It grows with the number
	// of hosts.
	Detours float64 `json:"detours"`
}

// statHosts is the number of hosts in Stats: all their triangles take a tenth of a second.
const statHosts = 490

// Stats describes the internet by up to 490 of its hosts: all nodes of a matrix or, if there are
// more, some drawn with a fixed seed; in a synthetic internet half crawlers and half sites.
func (n *Internet) Stats() Stats {
	rnd := rand.New(rand.NewPCG(statHosts, 0x7374617473))
	if size := n.Size(); size > 0 {
		return n.StatsOf(rnd.Perm(size)[:min(size, statHosts)])
	}
	p, s, _ := n.Draw(rnd, statHosts/2, statHosts/2) // the internet is unlimited
	return n.StatsOf(append(p, s...))
}

// StatsOf describes the RTTs between these hosts, in time cubic in their number.
func (n *Internet) StatsOf(hosts []int) Stats {
	st := Stats{Hosts: len(hosts)}
	rtts := make([][]time.Duration, len(hosts))
	var known []time.Duration
	for a, i := range hosts {
		rtts[a] = make([]time.Duration, len(hosts))
		for b, j := range hosts[:a] {
			d := n.RTT(i, j)
			rtts[a][b], rtts[b][a] = d, d
			if d >= 0 {
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
	st.triangles(rtts, len(known))
	return st
}

// triangles checks all triangles. A pair with a shorter path is the longest side of a violated
// triangle.
func (st *Stats) triangles(rtts [][]time.Duration, pairs int) {
	all, violated, violated10, detours := 0, 0, 0, 0
	for a, from := range rtts {
		for b := range a {
			direct, to := from[b], rtts[b][:len(from)]
			if direct < 0 {
				continue
			}
			before := violated
			for c, first := range from {
				second := to[c]
				if first < 0 || second < 0 || c == a || c == b {
					continue
				}
				all++ // each triangle three times; at most one of them has its longest side here
				if direct > first+second {
					violated++
					if 10*direct > 11*(first+second) {
						violated10++
					}
				}
			}
			if violated > before {
				detours++
			}
		}
	}
	if all > 0 {
		st.Violations, st.Violations10 = 3*float64(violated)/float64(all), 3*float64(violated10)/float64(all)
	}
	st.Detours = float64(detours) / float64(pairs)
}
