package experiment

import "math"

// orNone is a paper's figure, of which 0 means that it says nothing.
func orNone(paper float64) float64 {
	if paper == 0 {
		return math.NaN()
	}
	return paper
}

// sum of values.
func sum(values []float64) (all float64) {
	for _, v := range values {
		all += v
	}
	return all
}

// mean of values; NaN of none.
func mean(values []float64) float64 { return sum(values) / float64(len(values)) }

// deviation of values from their mean.
func deviation(values []float64) float64 {
	middle, square := mean(values), 0.0
	for _, v := range values {
		square += (v - middle) * (v - middle)
	}
	return math.Sqrt(square / float64(len(values)))
}

// spread is the greatest over the mean; NaN where all are nothing.
func spread(ascending []float64) float64 {
	all := sum(ascending)
	if all == 0 {
		return math.NaN()
	}
	return ascending[len(ascending)-1] * float64(len(ascending)) / all
}

// quantile of ascending values; 0 of none.
func quantile(ascending []float64, p float64) float64 {
	if len(ascending) == 0 {
		return 0
	}
	return ascending[int(p*float64(len(ascending)-1)+0.5)]
}

// percentiles is the line that shows how much is below what: at 1 % and so on up to the last percent asked for.
func percentiles(label string, last int, at func(percent int) float64) Line {
	l := Line{Label: label}
	for percent := 1; percent <= last; percent++ {
		l.add(at(percent), float64(percent))
	}
	return l
}

// ranked is the line of ascending values over the share of all that they and those before them are, in percent.
func ranked(label string, ascending []float64) Line {
	l := Line{Label: label}
	for i, v := range ascending {
		l.add(100*float64(i+1)/float64(len(ascending)), v)
	}
	return l
}
