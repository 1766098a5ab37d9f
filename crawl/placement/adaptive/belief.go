package adaptive

import (
	"math"
	"math/rand/v2"
	"net/netip"
)

// scales are degrees of similarity of two sites, as a share of the round trip: in one rack, in one
// town, in one country, hardly similar.
var scales = [...]float64{0.004, 0.015, 0.05, 0.15, 0.4}

// scaleKinds is their number.
const scaleKinds = len(scales)

// deviation returns that of a round trip in milliseconds from that of a site similar at a scale: a
// share of it, and a minimum for scheduling and short paths.
func deviation(scale, ms float64) float64 { return scale*(ms+10) + 0.05 }

// worth is what was learned about a kind of hint.
type worth struct {
	// tells is the probability that a site is similar to one of those with which it shares the hint,
	// if it is similar to none with a stronger one.
	tells float64
	// scales are the probabilities of the scales.
	scales [scaleKinds]float64
	seen   float64 // evidence so far, in sites
}

// newWorths returns a uniform prior: each hint is right half of the time, and all scales are
// equally likely.
func newWorths() (w [hintKinds]worth) {
	for k := range w {
		w[k].tells = 0.5
		for s := range w[k].scales {
			w[k].scales[s] = 1 / float64(scaleKinds)
		}
	}
	w[anywhere].tells = 1
	return w
}

// observation is a round trip in milliseconds to the site in question.
type observation struct {
	column int
	ms     float64
}

// maxObserved bounds the observations that weigh memories: the smallest, since they are the most
// informative, and products of more could underflow.
const maxObserved = 6

// belief weighs memories for a site. Its slices are reused for the next site.
type belief struct {
	memories *memories
	worths   [hintKinds]worth
	rnd      *rand.Rand

	weights [][scaleKinds]float64 // by memory: the probability, not normalized
	total   float64
	mass    [hintKinds][scaleKinds]float64 // part of total by hint and scale
	draws   [][]float64                    // possible sites: round trips by candidate
}

// weigh computes the weights of all memories, except one, for a site with these hints and
// observations.
func (b *belief) weigh(h *hints, seen []observation, except *memory) {
	all := b.memories.all
	b.weights = resize(b.weights, len(all))
	var count [hintKinds]float64
	for _, m := range all {
		if m != except {
			for k := range h {
				if h[k] != 0 && m.hints[k] == h[k] {
					count[k]++
				}
			}
		}
	}
	share := b.shares(&count)
	b.total, b.mass = 0, [hintKinds][scaleKinds]float64{}
	for i, m := range all {
		b.weights[i] = [scaleKinds]float64{}
		if m == except {
			continue
		}
		fit := fit(m, seen)
		for k := range h {
			if h[k] == 0 || m.hints[k] != h[k] {
				continue
			}
			for s := range fit {
				w := share[k] / count[k] * b.worths[k].scales[s] * fit[s]
				b.weights[i][s] += w
				b.mass[k][s] += w
				b.total += w
			}
		}
	}
}

// like describes the sites that contribute most to the belief, for display.
func (b *belief) like(site netip.Addr) string {
	most, mass := anywhere, 0.0
	for k := range b.mass {
		sum := 0.0
		for _, m := range b.mass[k] {
			sum += m
		}
		if sum > mass {
			most, mass = hint(k), sum
		}
	}
	if most == anywhere {
		return "similar sites"
	}
	bits := prefixBits[most].v6
	if site = site.Unmap().WithZone(""); site.Is4() {
		bits = prefixBits[most].v4
	}
	p, _ := site.Prefix(bits) // valid, as there is such a hint
	return "sites of " + p.String()
}

// shares returns the prior probabilities of the kinds of hints: each takes its part of what
// stronger ones leave.
func (b *belief) shares(count *[hintKinds]float64) (share [hintKinds]float64) {
	left := 1.0
	for k := range share {
		if count[k] > 0 {
			share[k] = left * b.worths[k].tells
			left -= share[k]
		}
	}
	return share
}

// freedom is that of Student's t: the common error of a site's round trips has heavy tails, since
// two similar sites may still be far apart.
const freedom = 3

// fit returns the density of the observations if the site is similar to a memory at each scale.
func fit(m *memory, seen []observation) (f [scaleKinds]float64) {
	var off, densest [scaleKinds]float64
	for s := range densest {
		densest[s] = 1
	}
	n := 0
	for _, o := range seen {
		c := m.at(o.column)
		if !c.known() {
			continue
		}
		n++
		mean, dev := float64(c.mean), float64(c.dev)
		far := (o.ms - mean) * (o.ms - mean)
		for s, scale := range scales {
			d := deviation(scale, mean)
			variance := d*d + dev*dev
			off[s] += far / variance
			densest[s] *= variance
		}
	}
	for s := range f {
		tail := 1 + off[s]/freedom
		falls := tail * math.Sqrt(tail)
		for range n {
			densest[s] *= tail
		}
		f[s] = 1 / (math.Sqrt(densest[s]) * falls)
	}
	return f
}

const (
	// possible is the number of draws. More make choices steadier, and cost time.
	possible = 192
	// common is the common error of all round trips of a site, in deviations: the site's last mile.
	common = 2.0
)

// draw draws possible sites from the weights, for these candidates: observed values are fixed, the
// others are the memory's with the common error of the observations and noise. It returns false if
// there is nothing to draw from.
func (b *belief) draw(peers []*column, seen []observation) bool {
	if !(b.total > 0) {
		return false
	}
	b.draws = resize(b.draws, possible)
	start := b.rnd.Float64()
	i, s, sum := 0, 0, b.weights[0][0]
	for d := range b.draws {
		target := (start + float64(d)) / possible * b.total
		for sum <= target && (i < len(b.weights)-1 || s < scaleKinds-1) {
			if s++; s == scaleKinds {
				i, s = i+1, 0
			}
			sum += b.weights[i][s]
		}
		b.draws[d] = resize(b.draws[d], len(peers))
		b.drawFrom(b.memories.all[i], scales[s], peers, seen, b.draws[d])
	}
	return true
}

func (b *belief) drawFrom(m *memory, scale float64, peers []*column, seen []observation, y []float64) {
	off, far, precision, prior, n := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, o := range seen {
		if c := m.at(o.column); c.known() {
			d := deviation(scale, float64(c.mean))
			p := 1 / (d*d + float64(c.dev)*float64(c.dev))
			off += (o.ms - float64(c.mean)) * p
			far += (o.ms - float64(c.mean)) * (o.ms - float64(c.mean)) * p
			precision += p
			prior = max(prior, common*d)
			n++
		}
	}
	if precision > 0 {
		off /= precision + 1/(prior*prior)
	}
	// An observed error above the scale increases the deviation of the rest.
	wide := math.Sqrt((freedom + far) / (freedom + n))
	for k, p := range peers {
		c := m.at(p.number)
		if !c.known() {
			y[k] = math.Inf(1)
			continue
		}
		d := deviation(scale, float64(c.mean))
		dev := math.Sqrt(d*d + float64(c.dev)*float64(c.dev))
		y[k] = max(float64(c.mean)+off+b.rnd.NormFloat64()*wide*dev, minRTT)
	}
	for _, o := range seen {
		for k, p := range peers {
			if p.number == o.column {
				y[k] = o.ms
			}
		}
	}
}

// minRTT is the smallest round trip assumed without a measurement, in milliseconds.
const minRTT = 0.05

const (
	// forgetting is the minimum weight of a new site in the worth of hints: about the last hundred
	// count.
	forgetting = 0.01
	// doubt is the probability of what has never occurred.
	doubt = 0.005
)

// learn updates the worth of hints from the weights of a measured site: each is credited with its
// part of the fit.
func (b *belief) learn() {
	if !(b.total > 0) {
		return
	}
	var of [hintKinds]float64
	rest := 0.0
	for k := range b.mass {
		for _, m := range b.mass[k] {
			of[k] += m / b.total
		}
		rest += of[k]
	}
	for k := range b.worths {
		if of[k] > 0 && rest > 1e-9 {
			w := &b.worths[k]
			w.seen += rest
			rate := max(forgetting, 1/(w.seen+2))
			if hint(k) != anywhere {
				w.tells = min(max(w.tells+rate*rest*(of[k]/rest-w.tells), doubt), 1-doubt)
			}
			b.learnScales(w, k, rate*of[k], of[k])
		}
		rest -= of[k]
	}
}

func (b *belief) learnScales(w *worth, k int, rate, of float64) {
	sum := 0.0
	for s := range w.scales {
		w.scales[s] = max(w.scales[s]+rate*(b.mass[k][s]/b.total/of-w.scales[s]), doubt)
		sum += w.scales[s]
	}
	for s := range w.scales {
		w.scales[s] /= sum
	}
}

// resize returns a slice of that length, reusing the old one if it is large enough.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return append(s[:cap(s)], make([]T, n-cap(s))...)
	}
	return s[:n]
}
