package coordinates

import "slices"

// FilterConfig is a moving percentile filter: of the last samples between two parties the one at a
// percentile counts, so that one slow sample does not move a coordinate (3.1). Low percentiles
// tolerate noise, large windows are steadier and slower.
type FilterConfig struct {
	// Max samples are stored, and none is used before there are Min.
	Max, Min int
	// Percentile of the window, 0 to 1, is the value.
	Percentile float64
}

// The settings of the paper's experiments with load and with a slow server. They have no window
// minimum; a quarter of the window was chosen, with which estimation takes about as many updates as
// the thesis measured.
var (
	LoadFilter     = FilterConfig{Max: 20, Min: 5, Percentile: 0.2}
	SlowdownFilter = FilterConfig{Max: 16, Min: 4, Percentile: 0.5}
)

// filter is the window of one pair. The zero value is empty.
type filter struct {
	ordered []float32 // the samples, sorted
	arrived []float32 // the same as a ring, the oldest at next once it is full
	next    int
}

// add adds a sample and returns the value of the window, false while it has too few samples.
func (f *filter) add(cfg *FilterConfig, ms float64) (float64, bool) {
	sample := float32(ms)
	if len(f.arrived) < cfg.Max {
		f.arrived = append(f.arrived, sample)
	} else {
		at, _ := slices.BinarySearch(f.ordered, f.arrived[f.next])
		f.ordered = slices.Delete(f.ordered, at, at+1)
		f.arrived[f.next] = sample
		f.next = (f.next + 1) % cfg.Max
	}
	at, _ := slices.BinarySearch(f.ordered, sample)
	f.ordered = slices.Insert(f.ordered, at, sample)
	return f.value(cfg)
}

// value returns the sample at the percentile.
func (f *filter) value(cfg *FilterConfig) (float64, bool) {
	n := len(f.ordered)
	if n < cfg.Min || n == 0 {
		return 0, false
	}
	return float64(f.ordered[min(int(cfg.Percentile*float64(n)), n-1)]), true
}
