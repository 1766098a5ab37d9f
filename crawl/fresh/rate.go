// Package fresh estimates how often URLs change, and decides when to visit them again.
//
// It is a state machine without clock, goroutines or storage: times are arguments, in days since
// any fixed moment. [Page] is the state of a URL, [Means] those of a host and of a job, [Control]
// keeps a budget of visits, and a [Queue] has the order.
//
// A URL is assumed to change as a Poisson process. Its rate is known as a Gamma distribution
// ([Rate]), which begins at the mean of its host, and forgets: pages change their habits.
//
// A visit is due when its [Rate.Value] reaches the threshold of Control, so that all URLs that are
// visited have the same marginal value (Cho and Garcia-Molina, Effective Page Refresh Policies for
// Web Crawlers, 2003).
package fresh

import "math"

// Rate is the Gamma distribution of the change rate of a URL: shape A and inverse scale B in days,
// so that the mean is A/B changes a day. The zero value is not valid: see [NewPrior].
type Rate struct{ A, B float32 }

// The bounds of A, of B in days, and of the mean rate of a host in changes a day.
const (
	minA, maxA       = 1e-2, 1e5
	minB, maxB       = 1e-4, 1e6
	minMean, maxMean = 1e-5, 24
)

const (
	priorShape  = 0.3   // A of a prior: rates within a host differ by orders of magnitude
	forgetting  = 365   // days after which evidence has the weight 1/e
	certain     = 1e-12 // a change that was less probable than this is counted, not matched
	maxInterval = 1e5   // days
	minInterval = 1e-4  // days
)

// bounded returns v within low and high, and low for NaN.
func bounded(v, low, high float64) float64 {
	if !(v > low) {
		return low
	}
	return min(v, high)
}

func rateOf(a, b float64) Rate {
	return Rate{A: float32(bounded(a, minA, maxA)), B: float32(bounded(b, minB, maxB))}
}

// NewPrior returns the distribution before the first visit: A = 0.3, and the mean in changes a day.
func NewPrior(mean float64) Rate {
	return rateOf(priorShape, priorShape/bounded(mean, minMean, maxMean))
}

// Valid reports whether the distribution is one that this package returns.
func (r Rate) Valid() bool { return r == rateOf(float64(r.A), float64(r.B)) }

// Mean returns the expected rate in changes a day.
func (r Rate) Mean() float64 { return float64(r.A) / float64(r.B) }

// forgotten moves r towards the prior: A and B keep exp(-interval / 365 d) of their distance.
func (r Rate) forgotten(interval float64, prior Rate) (a, b float64) {
	f := math.Exp(-bounded(interval, 0, math.MaxFloat64) / forgetting)
	a0, b0 := float64(prior.A), float64(prior.B)
	return a0 + (float64(r.A)-a0)*f, b0 + (float64(r.B)-b0)*f
}

// Unchanged returns the distribution after a visit that found no change for interval days: B grows
// by interval.
func (r Rate) Unchanged(interval float64, prior Rate) Rate {
	a, b := r.forgotten(interval, prior)
	return rateOf(a, b+bounded(interval, 0, maxInterval))
}

// ChangedAt returns the distribution after a visit that found a change at a believed time, since
// days after the last visit and at most interval: A grows by 1 and B by since.
func (r Rate) ChangedAt(since, interval float64, prior Rate) Rate {
	a, b := r.forgotten(interval, prior)
	return rateOf(a+1, b+bounded(since, 0, bounded(interval, 0, maxInterval)))
}

// Changed returns the distribution after a visit that found one or more changes at unknown times
// within interval days. The exact posterior is no Gamma distribution; the result is the one with
// the same mean m1 and variance m2 - m1²: with u = b/(b+interval), r = u^a and Z = 1-r,
//
//	m1 = (a/b) (1 - r u) / Z    m2 = (a(a+1)/b²) (1 - r u²) / Z
//
// A change that was nearly impossible counts as one at the last visit.
func (r Rate) Changed(interval float64, prior Rate) Rate {
	a, b := r.forgotten(interval, prior)
	x := math.Log1p(bounded(interval, 0, maxInterval) / b) // -ln u
	z := -math.Expm1(-a * x)
	m1 := a / b * -math.Expm1(-(a+1)*x) / z
	m2 := a * (a + 1) / (b * b) * -math.Expm1(-(a+2)*x) / z
	if v := m2 - m1*m1; z >= certain && v > 0 {
		return rateOf(m1*m1/v, m1/v)
	}
	return rateOf(a+1, b)
}

// Value returns the value of a visit t days after the last one, in days: weight times
//
//	∫ (b/(b+s))^a ds (0 to t) - t (b/(b+t))^a
//
// The integral is the expected time for which the copy was current, and t times the second factor
// what it would be without a change. The value grows with t, from 0; its limit is b/(a-1) if a > 1.
func (r Rate) Value(weight, t float64) float64 {
	a, b := float64(r.A), float64(r.B)
	y := bounded(t, 0, maxInterval) / b
	if (a+1)*y < 1e-3 { // the difference cancels: three terms of the series
		return weight * b * a * y * y * (1./2 - (a+1)*y*(1./3-(a+2)*y/8))
	}
	x := math.Log1p(y)
	current := x
	if z := (1 - a) * x; z != 0 {
		current *= math.Expm1(z) / z
	}
	return max(weight*b*(current-y*math.Exp(-a*x)), 0)
}

// Due returns the days after a visit at which the value of the next one reaches a threshold; at
// most 100,000, for a URL whose value never does.
func (r Rate) Due(weight, threshold float64) float64 {
	low, high := math.Log(minInterval), math.Log(maxInterval)
	for range 32 { // to a relative 5e-9
		if middle := (low + high) / 2; r.Value(weight, math.Exp(middle)) < threshold {
			low = middle
		} else {
			high = middle
		}
	}
	return math.Exp(high)
}

// Elapsed returns the days after a visit by which a change is as probable as a signal is precise,
// at most 100,000: b ((1-precision)^(-1/a) - 1).
func (r Rate) Elapsed(precision float64) float64 {
	a, b := float64(r.A), float64(r.B)
	return bounded(b*math.Expm1(-math.Log1p(-bounded(precision, 0, 1))/a), 0, maxInterval)
}

// Means is the mean rate of the visited URLs of a host or of a job.
type Means struct {
	Pages int
	Sum   float64 // of their expected rates, in changes a day
}

const (
	// shrinking is the weight of the job in the mean of a host, in pages.
	shrinking = 10
	// usualRate is the mean of a job without evidence: a change a month.
	usualRate = 1. / 30
)

func (m *Means) mean(usual float64) float64 {
	return max(m.Sum+shrinking*usual, 0) / float64(m.Pages+shrinking)
}

// Prior returns the distribution of a host's URL before the first visit: the mean of the host,
// shrunk to that of the job with the weight of 10 pages.
func (m *Means) Prior(job *Means) Rate { return NewPrior(m.mean(job.mean(usualRate))) }

// Replace counts a URL's new distribution in place of its old one; first counts a new URL.
func (m *Means) Replace(before, after Rate, first bool) {
	if first {
		m.Pages++
	} else {
		m.Sum -= before.Mean()
	}
	m.Sum += after.Mean()
}
