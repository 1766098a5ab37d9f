package adaptive

import (
	"cmp"
	"math"
	"slices"
)

const (
	// tie is the difference in milliseconds below which two round trips count as equal: scheduling
	// noise is as large.
	tie = 1.0
	// asSure is the prior number of draws after a probe: a narrow window has few draws, which would
	// appear more certain than they are.
	asSure = 1.0
)

// judgement is the result of the draws for the candidates.
type judgement struct {
	best []float64 // by candidate: share of the draws in which it is within tie of the best one
	mean []float64 // by candidate: mean merit over the draws
	late []float64 // by candidate: mean milliseconds behind the best one
	gain []float64 // by candidate: expected increase of the choice's merit by a probe of it; 0 if it was measured

	merit  [][]float64 // by draw and candidate: 1 for the best one, less than 0 for large losses
	order  []result
	sums   []float64
	likely []int
}

// result is the result of a probe in a draw.
type result struct {
	ms   float64
	draw int
}

const (
	// maxLoss bounds the counted distance, in milliseconds: one bad draw must not dominate.
	maxLoss = 200
	// dear is the distance in milliseconds whose loss equals the gain of a right choice.
	dear = 150.0
)

// judge computes best, mean and late. Lag makes slow candidates appear farther away.
func (j *judgement) judge(draws [][]float64, lag []float64) {
	n := len(lag)
	j.best, j.mean, j.late = zeros(j.best, n), zeros(j.mean, n), zeros(j.late, n)
	j.merit = resize(j.merit, len(draws))
	for d, y := range draws {
		least := math.Inf(1)
		for k, v := range y {
			least = min(least, v+lag[k])
		}
		j.merit[d] = resize(j.merit[d], n)
		for k, v := range y {
			behind := v + lag[k] - least
			if behind <= tie {
				j.best[k] += 1 / float64(len(draws))
				j.merit[d][k] = 1
			} else {
				j.merit[d][k] = -min(behind, maxLoss) / dear
			}
			j.late[k] += min(behind, maxLoss) / float64(len(draws))
			j.mean[k] += j.merit[d][k] / float64(len(draws))
		}
	}
}

// choose returns the candidate with the largest merit.
func (j *judgement) choose() int {
	choice := 0
	for k := range j.mean {
		if j.mean[k] > j.mean[choice] {
			choice = k
		}
	}
	return choice
}

// maxValued bounds the candidates whose probes are valued: those most likely to be the best one.
const maxValued = 8

// value computes gain for unmeasured candidates: for each draw as the truth, the merit of the best
// choice in the draws with about the same result. Where no probe can reach the minimum gain, as no
// merit is over 1, all gains are 0.
func (j *judgement) value(draws [][]float64, measured []bool, least float64) {
	j.gain, j.likely = zeros(j.gain, len(measured)), j.likely[:0]
	now := slices.Max(j.mean)
	if 1-now < least {
		return
	}
	for k, known := range measured {
		if !known && j.best[k] > 0 {
			j.likely = append(j.likely, k)
		}
	}
	slices.SortFunc(j.likely, func(a, b int) int { return cmp.Or(cmp.Compare(j.best[b], j.best[a]), cmp.Compare(a, b)) })
	for _, k := range j.likely[:min(len(j.likely), maxValued)] {
		j.gain[k] = max(j.after(draws, k)-now, 0)
	}
}

// after returns the expected merit of the choice after a probe of k.
func (j *judgement) after(draws [][]float64, k int) float64 {
	j.order = resize(j.order, len(draws))
	for d := range draws {
		j.order[d] = result{draws[d][k], d}
	}
	slices.SortFunc(j.order, func(a, b result) int {
		if a.ms < b.ms {
			return -1
		}
		if a.ms > b.ms {
			return 1
		}
		return a.draw - b.draw
	})
	j.sums = zeros(j.sums, len(j.best))
	low, high, total := 0, 0, 0.0
	for _, at := range j.order {
		wide := tie/2 + at.ms/100
		for ; high < len(j.order) && j.order[high].ms <= at.ms+wide; high++ {
			j.move(j.order[high].draw, 1)
		}
		for ; j.order[low].ms < at.ms-wide; low++ {
			j.move(j.order[low].draw, -1)
		}
		most := math.Inf(-1)
		for c, sum := range j.sums {
			most = max(most, sum+asSure*j.mean[c])
		}
		total += most / (float64(high-low) + asSure)
	}
	return total / float64(len(draws))
}

// move adds a draw to the window, or removes it.
func (j *judgement) move(draw int, by float64) {
	for c, m := range j.merit[draw] {
		j.sums[c] += by * m
	}
}

// zeros is resize, with zeros.
func zeros(s []float64, n int) []float64 {
	s = resize(s, n)
	clear(s)
	return s
}
