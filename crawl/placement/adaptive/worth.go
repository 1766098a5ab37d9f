package adaptive

import (
	"cmp"
	"math"
	"slices"
)

const (
	// tie is the difference in milliseconds below which two round trips are the same: scheduling
	// adds as much.
	tie = 1.0
	// asSure is how many draws of those before a probe still count after it: what remains in a
	// narrow window is few, and few draws look surer than they are.
	asSure = 1.0
)

// judgement is what the draws say of the candidates.
type judgement struct {
	best []float64 // by candidate: share of the draws in which it is within tie of the best one
	mean []float64 // by candidate: its merit in the mean over the draws
	late []float64 // by candidate: by how many milliseconds it is behind the best one in the mean
	gain []float64 // by candidate: by how much a probe of it would raise the merit of the choice; 0 if it was measured

	merit  [][]float64 // by draw and candidate: 1 for the best one, less than 0 for those that lose much
	order  []result
	sums   []float64
	likely []int
}

// result of a probe in a draw.
type result struct {
	ms   float64
	draw int
}

const (
	// maxLoss is where further distance does not count any more, in milliseconds: one bad draw must
	// not outweigh all.
	maxLoss = 200
	// dear is by how many milliseconds to be off is as bad as to be right is good.
	dear = 150.0
)

// judge fills in best, mean and late. lag makes slow candidates look farther.
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

// choose returns the candidate of the largest merit.
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

// value fills in gain, for candidates that are not measured yet: for each draw as the truth, which
// merit would the best choice have in the draws with about the same result? Where no probe can
// bring as much as the least that counts, as no merit is over 1, all are said to bring nothing.
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

// after is the expected merit of the choice after a probe of k.
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

// move takes a draw into the window, or out of it.
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
