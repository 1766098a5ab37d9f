package main

import (
	"math"
	"math/rand/v2"
	"slices"
)

// warmUp is the share of a trace that is not measured.
const warmUp = 0.25

// world is a trace with what one draw adds: the importance of pages, and phases of their visits.
type world struct {
	*trace
	weight, phase []float64
	salt          uint64 // of the hashes that place pages on peers
}

// newWorld draws phases, and importance from Pareto(1.2) or 1.
func newWorld(t *trace, rng *rand.Rand, important bool) *world {
	w := &world{trace: t, salt: rng.Uint64()}
	for range t.pages {
		phase, weight := rng.Float64(), math.Pow(1-rng.Float64(), -1/1.2)
		if !important {
			weight = 1
		}
		w.phase, w.weight = append(w.phase, phase), append(w.weight, weight)
	}
	return w
}

// budget is the number of visits a day to all pages.
func (w *world) budget() float64 { return float64(len(w.pages)) / w.every }

// replay is the state of the copies of all pages while a policy visits them.
type replay struct {
	*world
	last    []float64 // day of the last visit
	next    []int     // first change after it
	current []float64 // days for which the copy was current, in the measured part
	visits  float64   // in the measured part
}

func newReplay(w *world) *replay {
	r := &replay{world: w, last: make([]float64, len(w.pages)), next: make([]int, len(w.pages)), current: make([]float64, len(w.pages))}
	for i := range w.pages {
		r.last[i] = w.pages[i].begin
	}
	return r
}

// visit fetches a page on day now, and reports whether it changed since the last visit.
func (r *replay) visit(i int, now float64) (changed bool) {
	changes, until := r.pages[i].changes, now
	if k := r.next[i]; k < len(changes) && changes[k] <= now {
		until, changed = changes[k], true
	}
	from := r.days * warmUp
	r.current[i] += max(until-max(r.last[i], from), 0)
	for r.next[i] < len(changes) && changes[r.next[i]] <= now {
		r.next[i]++
	}
	r.last[i] = now
	if now >= from && now < r.days {
		r.visits++
	}
	return changed
}

// end returns freshness and visits at the end of the trace.
func (r *replay) end() result {
	made := r.visits / (r.budget() * r.days * (1 - warmUp))
	current, all := 0., 0.
	for i := range r.pages {
		r.visit(i, r.days)
		current += r.weight[i] * r.current[i]
		all += r.weight[i] * (r.days - max(r.pages[i].begin, r.days*warmUp))
	}
	return result{freshness: current / all, visits: made, busiest: made}
}

// fixed visits each page at its own fixed interval, given as visits a day.
func fixed(w *world, frequency func(i int) float64) result {
	r := newReplay(w)
	for i := range w.pages {
		f := frequency(i)
		for at := w.pages[i].begin + w.phase[i]/f; at < w.days; at += 1 / f {
			r.visit(i, at)
		}
	}
	return r.end()
}

func uniform(w *world) result { return fixed(w, func(int) float64 { return 1 / w.every }) }

// proportional visits pages in proportion to their true rates.
func proportional(w *world) result {
	scale := w.changes() * w.every
	return fixed(w, func(i int) float64 { return w.rate(i) / scale })
}

// oracle visits pages at the frequencies f that are best for their true rates: all that are visited
// have the same marginal value, weight (1 - (1+x) exp(-x)) / rate with x = rate/f (Cho and
// Garcia-Molina 2003, 4.2).
func oracle(w *world) result {
	f := make([]float64, len(w.pages))
	bisect(func(value float64) bool {
		all := 0.
		for i := range f {
			rate := w.rate(i)
			if share := rate * value / w.weight[i]; rate == 0 || share >= 1 {
				f[i] = 0
			} else {
				f[i] = rate / bisect(func(x float64) bool { return -math.Expm1(-x)-x*math.Exp(-x) < share })
			}
			all += f[i]
		}
		return all > w.budget()
	})
	return fixed(w, func(i int) float64 { return f[i] })
}

// bisect returns the number up to which low is true, of 1e-9 to 1e9.
func bisect(low func(float64) bool) float64 {
	from, to := 1e-9, 1e9
	for range 50 {
		if x := math.Sqrt(from * to); low(x) {
			from = x
		} else {
			to = x
		}
	}
	return to
}

// nutch visits the page that is due first whenever the budget has a visit, and changes its interval
// as Nutch's AdaptiveFetchSchedule does, within a minute and a year.
func nutch(w *world) result {
	r, due, interval := newReplay(w), make([]float64, len(w.pages)), make([]float64, len(w.pages))
	for i := range interval {
		interval[i] = w.every
		due[i] = w.pages[i].begin + w.phase[i]*w.every
	}
	for n := 1.; n < w.budget()*w.days; n++ {
		now, i := n/w.budget(), slices.Index(due, slices.Min(due))
		if w.pages[i].begin > now {
			continue
		}
		factor := 1.4
		if r.visit(i, now) {
			factor = 0.8
		}
		interval[i] = min(max(interval[i]*factor, 1./1440), 365)
		due[i] = now + interval[i]
	}
	return r.end()
}
