// Package report holds what experiments find: rows of a table, figures over something, charts, and
// the directory that they are written into.
//
// The same figures give the same files, byte for byte.
package report

// Report is what an experiment finds.
type Report struct {
	Table Table  // the figures beside those of the paper
	Plots []Plot // charts, each a file
	// Series are further figures over something, each a file NAME.csv.
	Series []Series
	// Inputs are the options as used, with what was filled in, and files by name.
	Inputs map[string]any
}

// Input notes what a run was made from.
func (r *Report) Input(name string, value any) {
	if r.Inputs == nil {
		r.Inputs = make(map[string]any)
	}
	r.Inputs[name] = value
}
