package report

import (
	"math"
	"slices"
)

// OrNone returns a paper's figure, or NaN for 0, which means none.
func OrNone(paper float64) float64 {
	if paper == 0 {
		return math.NaN()
	}
	return paper
}

// Sum returns the sum of values.
func Sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// Mean returns the mean of values; NaN for none.
func Mean(values []float64) float64 { return Sum(values) / float64(len(values)) }

// Deviation returns the standard deviation of values.
func Deviation(values []float64) float64 {
	middle, square := Mean(values), 0.0
	for _, v := range values {
		square += (v - middle) * (v - middle)
	}
	return math.Sqrt(square / float64(len(values)))
}

// Spread returns the maximum divided by the mean; NaN if all values are 0.
func Spread(ascending []float64) float64 {
	all := Sum(ascending)
	if all == 0 {
		return math.NaN()
	}
	return ascending[len(ascending)-1] * float64(len(ascending)) / all
}

// Quantile returns the p-quantile of ascending values; 0 for none.
func Quantile(ascending []float64, p float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[int(p*float64(len(ascending)-1)+0.5)]
}

// Median returns the median of values; NaN for none.
func Median(values []float64) float64 { return interpolated(slices.Sorted(slices.Values(values)), 0.5) }

// interpolated returns the p-quantile of ascending values, between two of them if needed; NaN for
// none.
func interpolated(ascending []float64, p float64) float64 {
	if len(ascending) == 0 {
		return math.NaN()
	}
	whole, part := math.Modf(p * float64(len(ascending)-1))
	at := ascending[int(whole)]
	if part > 0 {
		at += part * (ascending[int(whole)+1] - at)
	}
	return at
}

// Ascending returns counts as values in ascending order.
func Ascending(counts []int) []float64 {
	out := make([]float64, len(counts))
	for i, n := range counts {
		out[i] = float64(n)
	}
	slices.Sort(out)
	return out
}

// Percentiles returns the line of the percentiles at(1) to at(last): X is the value, Y the
// percentage.
func Percentiles(label string, last int, at func(percent int) float64) Line {
	l := Line{Label: label}
	for percent := 1; percent <= last; percent++ {
		l.Add(at(percent), float64(percent))
	}
	return l
}

// Truth returns 1 for true, to count.
func Truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
