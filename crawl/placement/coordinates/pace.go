package coordinates

import (
	"net/netip"
	"slices"
)

// A server that moves away from every estimator at once is overloaded itself: no peer is nearer,
// and it should be asked less often (3.8 a).
const (
	// paceQuorum are the estimators that must have a history of a server before it is judged, and
	// paceShare the share of them that must find it slower.
	paceQuorum = 3
	paceShare  = 2.0 / 3
	// paceHistory are the samples that make a history.
	paceHistory = 4
	// paceFactor is how much slower than usual the last download must have been to count: noise
	// stays below.
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

// slower is by how much the latest download took longer than usual, 0 without a history to compare
// it with.
func (w *window) slower() float64 {
	if len(w.arrived) < paceHistory || w.was <= 0 {
		return 0
	}
	return w.last / w.was
}

// Pace is how many times less often than usual a server should be asked: 1 if it is as quick as
// ever. It is slow when at least two thirds of the estimators that know it find it at least twice
// as slow as before, and the one that asked last is among them. Then it is the median of their
// ratios, at most 16.
func (s *Servers) Pace(addr netip.Addr) float64 {
	e := s.byAddr[addr]
	if e == nil {
		return 1
	}
	var ratios []float64
	slower := 0
	newest, now := 0, 0.0
	for _, w := range e.Value.(*server).windows {
		ratio := w.slower()
		if ratio == 0 {
			continue
		}
		ratios = append(ratios, ratio)
		if ratio >= paceFactor {
			slower++
		}
		if w.turn > newest || w.turn == newest && ratio < now { // the smaller of two at one time, so that the order does not matter
			newest, now = w.turn, ratio
		}
	}
	if len(ratios) < paceQuorum || now < paceFactor || float64(slower) < paceShare*float64(len(ratios)) {
		return 1
	}
	slices.Sort(ratios)
	return min(ratios[len(ratios)/2], maxPace)
}

// unsure says whether this estimator should look next, to tell a slow server from a slow way to it:
// another one found the server slow since this one, which knows it and did not, was there.
func (s *Servers) unsure(addr netip.Addr, estimator string) bool {
	e := s.byAddr[addr]
	if e == nil {
		return false
	}
	windows := e.Value.(*server).windows
	w := windows[estimator]
	if w == nil || w.slower() == 0 || w.slower() >= paceFactor {
		return false
	}
	for id, other := range windows {
		if id != estimator && other.slower() >= paceFactor && other.turn > w.turn {
			return true
		}
	}
	return false
}
