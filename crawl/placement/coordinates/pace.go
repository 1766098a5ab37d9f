package coordinates

import (
	"net/netip"
	"slices"
)

// A server that moves away from every estimator at once is overloaded itself: no peer is nearer, and it should be asked less often (3.8 a).
const (
	// paceQuorum are the estimators that must have a history of a server before it is judged, and paceShare the share of them that must find it slower.
	paceQuorum = 3
	paceShare  = 2.0 / 3
	// paceHistory are the samples that make a history.
	paceHistory = 4
	// paceFactor is how much slower than usual the last download must have been to count: noise stays below.
	paceFactor = 2
	// maxPace bounds how much slower a server is asked.
	maxPace = 16
)

// window is what one estimator saw of a server.
type window struct {
	filter
	last float64 // the latest sample, ms
	was  float64 // what the window said before it
	turn int     // the server's updates when it was used last
	// failed counts downloads that failed
	failed int
}

func (w *window) add(cfg *FilterConfig, ms float64) (float64, bool) {
	if len(w.ordered) > 0 {
		w.was = float64(w.ordered[len(w.ordered)/2])
	}
	w.last = ms
	return w.filter.add(cfg, ms)
}

// Pace is by how much a server should be asked less often than usual: 1, or the median of how much slower its latest downloads were than those before, at
// most 16, while two thirds of the estimators that know it find it at least twice as slow. It falls back to 1 when downloads are as before, or when
// the windows have come to know nothing else.
func (s *Servers) Pace(addr netip.Addr) float64 {
	e := s.byAddr[addr]
	if e == nil {
		return 1
	}
	var ratios []float64
	slower := 0
	for _, w := range e.Value.(*server).windows {
		if len(w.arrived) < paceHistory || w.was <= 0 {
			continue
		}
		ratio := w.last / w.was
		ratios = append(ratios, ratio)
		if ratio >= paceFactor {
			slower++
		}
	}
	if len(ratios) < paceQuorum || float64(slower) < paceShare*float64(len(ratios)) {
		return 1
	}
	slices.Sort(ratios)
	return min(ratios[len(ratios)/2], maxPace)
}
