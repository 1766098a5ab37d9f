package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrUnknown is returned for a name that no experiment has, ErrOptions for options that it cannot work with.
var (
	ErrUnknown = errors.New("no such experiment")
	ErrOptions = errors.New("wrong options")
)

// Experiment is one experiment.
type Experiment struct {
	Name string // as the command line says it
	// About says in a line what is shown, Long in some more what is done and by which paper and section.
	About, Long string
	// Run does the work and fills in the report. It ends early with ctx's error, and calls progress now and then.
	Run func(ctx context.Context, o *Options, r *Report, progress func(Progress)) error
}

// Options are what a run can be given. The zero value of a field means the experiment's own default.
type Options struct {
	Seed uint64 // of all that is drawn
	// Peers of the experiment, and the virtual hours that it takes.
	Peers int
	Hours float64 // of virtual time
	// RTT is a matrix of round trips, Prefixes the addresses of its nodes, Hierarchy the IP ranges with their organisations: files, see [internet.Options].
	RTT, Prefixes, Hierarchy string
	// Quick makes do with less: seconds in place of minutes.
	Quick bool
}

// Validate names the first option that makes no sense.
func (o *Options) Validate() error {
	switch {
	case o.Peers < 0:
		return fmt.Errorf("%w: peers %d", ErrOptions, o.Peers)
	case !(o.Hours >= 0 && o.Hours <= maxHours):
		return fmt.Errorf("%w: hours %v, want up to %d", ErrOptions, o.Hours, maxHours)
	}
	return nil
}

// maxHours is a year: more is a slip of the finger.
const maxHours = 24 * 366

// Progress is how far a run has come.
type Progress struct {
	// Text says what is being done.
	Text string `json:"text"`
	// Done is the share of the whole, 0 to 1.
	Done float64 `json:"done"`
}

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

// registered are the experiments by name; filled in by the init of each one's file, and only read afterwards.
var registered []*Experiment

func register(e *Experiment) {
	registered = append(registered, e)
	slices.SortFunc(registered, func(a, b *Experiment) int { return strings.Compare(a.Name, b.Name) })
}

// All lists the experiments by name.
func All() []*Experiment { return slices.Clone(registered) }

// Find returns the experiment of a name; the error wraps ErrUnknown and names those there are.
func Find(name string) (*Experiment, error) {
	var names []string
	for _, e := range registered {
		if e.Name == name {
			return e, nil
		}
		names = append(names, e.Name)
	}
	return nil, fmt.Errorf("%w: %q, there are %s", ErrUnknown, name, strings.Join(names, ", "))
}

// Run runs an experiment and writes what it found into a directory, which is made if need be. Progress may be nil; it is called from several
// goroutines if the experiment has several, one at a time. When ctx ends nothing is written.
func Run(ctx context.Context, e *Experiment, o Options, dir, version string, progress func(Progress)) (*Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(Progress) {}
	}
	r := new(Report)
	begun := time.Now()
	if err := e.Run(ctx, &o, r, progress); err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	run := runInfo{
		Experiment: e.Name, Seed: o.Seed, Version: version, Inputs: r.Inputs, Begun: begun.UTC().Truncate(time.Second),
		Seconds: time.Since(begun).Seconds(),
	}
	if err := write(dir, r, &run); err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	return r, nil
}
