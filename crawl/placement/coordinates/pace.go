package coordinates

import (
	"net/netip"
	"slices"
)

// A server that moves away from every estimator at once is overloaded itself: no peer is nearer,
// and its delay should be increased (3.8 a).
const (
	// paceQuorum is the number of estimators that must have a history of a server before it is judged,
	// and paceShare the share of them that must find it slower.
	paceQuorum = 3
	paceShare  = 2.0 / 3
	// paceHistory is the number of samples that make a history.
	paceHistory = 4
	// paceFactor is how much slower than usual the last download must have been to count: noise stays
	// below.
	paceFactor = 2
	// maxPace bounds the increase of a server's delay.
	maxPace = 16
)

// window has one estimator's samples of a server.
type window struct {
	filter
	last float64 // the latest sample, ms
	was  float64 // value of the window before it
	turn int     // the server's updates when it was last used
	// failed counts failed downloads
	failed int
}

func (w *window) add(cfg *FilterConfig, ms float64) (float64, bool) {
	if len(w.ordered) > 0 {
		w.was = float64(w.ordered[len(w.ordered)/2])
	}
	w.last = ms
	return w.filter.add(cfg, ms)
}

// slower returns the ratio of the latest download to the usual duration, 0 without a history.
func (w *window) slower() float64 {
	if len(w.arrived) < paceHistory || w.was <= 0 {
		return 0
	}
	return w.last / w.was
}

// Pace returns the factor by which a server's delay should be increased: 1 if it is as fast as
// ever. It is slow when at least two thirds of the estimators that have a history find it at least
// twice as slow as before, and the most recent one is among them. Then it is the median of their
// ratios, at most 16.
func (s *Servers) Pace(addr netip.Addr) float64 {
	v, ok := s.byAddr.Peek(addr)
	if !ok {
		return 1
	}
	var ratios []float64
	slower := 0
	newest, now := 0, 0.0
	for _, w := range v.windows {
		ratio := w.slower()
		if ratio == 0 {
			continue
		}
		ratios = append(ratios, ratio)
		if ratio >= paceFactor {
			slower++
		}
		if w.turn > newest || w.turn == newest && ratio < now { // the smaller of two at one time, independent of order
			newest, now = w.turn, ratio
		}
	}
	if len(ratios) < paceQuorum || now < paceFactor || float64(slower) < paceShare*float64(len(ratios)) {
		return 1
	}
	slices.Sort(ratios)
	return min(ratios[len(ratios)/2], maxPace)
}

// unsure reports whether this estimator should measure next, to distinguish a slow server from a
// slow path: it has a history and did not find the server slow, and another one has since.
func (s *Servers) unsure(addr netip.Addr, estimator string) bool {
	v, ok := s.byAddr.Peek(addr)
	if !ok {
		return false
	}
	w := v.windows[estimator]
	if w == nil || w.slower() == 0 || w.slower() >= paceFactor {
		return false
	}
	for id, other := range v.windows {
		if id != estimator && other.slower() >= paceFactor && other.turn > w.turn {
			return true
		}
	}
	return false
}
