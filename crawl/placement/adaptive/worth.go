package adaptive

import (
	"cmp"
	"math"
	"slices"
)

const (
	// tie is the difference in milliseconds below which two round trips are the same: scheduling adds as much.
	tie = 1.0
	// asSure is how many draws of those before a probe still count after it: what remains in a narrow window is few, and few draws look surer than they are.
	asSure = 1.0
)

// judgement is what the draws say of the candidates.
type judgement struct {
	best  []float64 // by candidate: share of the draws in which it is within tie of the best one
	loses []float64 // by candidate: milliseconds behind the best one, in the mean over the draws
	gain  []float64 // by candidate: how much surer a probe of it would make the choice; 0 if it was measured

	wins   [][]bool // by draw and candidate
	order  []result
	count  []float64
	likely []int
}

// result of a probe in a draw.
type result struct {
	ms   float64
	draw int
}

// maxLoss is where further distance does not count any more, in milliseconds: one bad draw must not outweigh all.
const maxLoss = 200

// judge fills in best and loses. lag makes slow candidates look farther.
func (j *judgement) judge(draws [][]float64, lag []float64) {
	n := len(lag)
	j.best, j.loses = zeros(j.best, n), zeros(j.loses, n)
	j.wins = resize(j.wins, len(draws))
	for d, y := range draws {
		least := math.Inf(1)
		for k, v := range y {
			least = min(least, v+lag[k])
		}
		j.wins[d] = resize(j.wins[d], n)
		for k, v := range y {
			j.wins[d][k] = v+lag[k] <= least+tie
			j.loses[k] += min(v+lag[k]-least, maxLoss) / float64(len(draws))
			if j.wins[d][k] {
				j.best[k] += 1 / float64(len(draws))
			}
		}
	}
}

// choose returns the candidate that is most often the best one, of several the one that loses least.
func (j *judgement) choose() int {
	choice := 0
	for k := range j.best {
		if j.score(k) > j.score(choice) {
			choice = k
		}
	}
	return choice
}

// score weighs being the best one against how bad it is otherwise: a tenth of a second is as bad as a chance of one in ten.
func (j *judgement) score(k int) float64 { return j.best[k] - j.loses[k]/1000 }

// maxValued bounds the candidates whose probes are valued: those most likely to be the best one.
const maxValued = 8

// value fills in gain, for candidates that are not measured yet: for each draw as the truth, which share of the draws with about the same result would the
// best choice then be right in?
func (j *judgement) value(draws [][]float64, measured []bool) {
	j.gain, j.likely = zeros(j.gain, len(measured)), j.likely[:0]
	for k, known := range measured {
		if !known && j.best[k] > 0 {
			j.likely = append(j.likely, k)
		}
	}
	slices.SortFunc(j.likely, func(a, b int) int { return cmp.Or(cmp.Compare(j.best[b], j.best[a]), cmp.Compare(a, b)) })
	sure := slices.Max(j.best)
	for _, k := range j.likely[:min(len(j.likely), maxValued)] {
		j.gain[k] = max(j.after(draws, k)-sure, 0)
	}
}

// after is the expected probability of the best choice after a probe of k.
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
	j.count = zeros(j.count, len(j.best))
	low, high, total := 0, 0, 0.0
	for _, at := range j.order {
		wide := tie/2 + at.ms/100
		for ; high < len(j.order) && j.order[high].ms <= at.ms+wide; high++ {
			j.move(j.order[high].draw, 1)
		}
		for ; j.order[low].ms < at.ms-wide; low++ {
			j.move(j.order[low].draw, -1)
		}
		most := 0.0
		for c, n := range j.count {
			most = max(most, n+asSure*j.best[c])
		}
		total += most / (float64(high-low) + asSure)
	}
	return total / float64(len(draws))
}

// move counts the candidates that are the best ones in a draw.
func (j *judgement) move(draw int, by float64) {
	for c, wins := range j.wins[draw] {
		if wins {
			j.count[c] += by
		}
	}
}

// zeros is resize, with zeros.
func zeros(s []float64, n int) []float64 {
	s = resize(s, n)
	clear(s)
	return s
}
