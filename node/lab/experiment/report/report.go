// Package report holds the results of experiments: table rows, series, charts, and the directory of
// files.
//
// The same figures give the same files, byte for byte.
package report

// Report is the result of an experiment.
type Report struct {
	Table Table  // the figures beside those of the paper
	Plots []Plot // charts, each a file
	// Series are further figures over an axis, each a file NAME.csv.
	Series []Series
	// Inputs are the options as used, with defaults filled in, and files by name.
	Inputs map[string]any
}

// Input records an input of the run.
func (r *Report) Input(name string, value any) {
	if r.Inputs == nil {
		r.Inputs = make(map[string]any)
	}
	r.Inputs[name] = value
}
