package report

import (
	"math"
	"slices"
)

// OrNone is a paper's figure, of which 0 means that it says nothing.
func OrNone(paper float64) float64 {
	if paper == 0 {
		return math.NaN()
	}
	return paper
}

// Sum of values.
func Sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// Mean of values; NaN of none.
func Mean(values []float64) float64 { return Sum(values) / float64(len(values)) }

// Deviation of values from their mean.
func Deviation(values []float64) float64 {
	middle, square := Mean(values), 0.0
	for _, v := range values {
		square += (v - middle) * (v - middle)
	}
	return math.Sqrt(square / float64(len(values)))
}

// Spread is the greatest over the mean; NaN where all are nothing.
func Spread(ascending []float64) float64 {
	all := Sum(ascending)
	if all == 0 {
		return math.NaN()
	}
	return ascending[len(ascending)-1] * float64(len(ascending)) / all
}

// Quantile of ascending values; 0 of none.
func Quantile(ascending []float64, p float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[int(p*float64(len(ascending)-1)+0.5)]
}

// Ascending are counts as values in ascending order.
func Ascending(counts []int) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	slices.Sort(out)
	return out
}

// Percentiles is the line that shows how much is below what: at 1 % and so on up to the last
// percent asked for.
func Percentiles(label string, last int, at func(percent int) float64) Line {
	l := Line{Label: label}
	for percent := 1; percent <= last; percent++ {
		l.Add(at(percent), float64(percent))
	}
	return l
}

// Ranked is the line of ascending values over the share of all that they and those before them are,
// in percent.
func Ranked(label string, ascending []float64) Line {
	l := Line{Label: label}
	for i, v := range ascending {
		l.Add(100*float64(i+1)/float64(len(ascending)), v)
	}
	return l
}
