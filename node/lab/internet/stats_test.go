package internet

import "time"

// triangles describe how far RTTs are from distances in a space.
type triangles struct {
	// Violations is the fraction of triangles with a longest side above the sum of the other two,
	// Violations10 that of those above it by more than 10%.
	Violations, Violations10 float64
	// Detours is the fraction of pairs with a shorter path over a third host. It grows with the number
	// of hosts.
	Detours float64
}

// triangles describes the hosts of Stats, in time cubic in their number.
func (n *Internet) triangles() triangles {
	hosts := n.statHosts()
	rtts, pairs := make([][]time.Duration, len(hosts)), 0
	for a, i := range hosts {
		rtts[a] = make([]time.Duration, len(hosts))
		for b, j := range hosts[:a] {
			d := n.RTT(i, j)
			rtts[a][b], rtts[b][a] = d, d
			if d >= 0 {
				pairs++
			}
		}
	}
	return trianglesOf(rtts, pairs)
}

// trianglesOf checks all triangles. A pair with a shorter path is the longest side of a violated
// triangle.
func trianglesOf(rtts [][]time.Duration, pairs int) (st triangles) {
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
	return st
}
