// Package trial defines an experiment: a name, options, a run that fills a report, and repeated
// draws.
package trial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/ops/volunteer/machine"
)

// ErrOptions is returned for invalid options.
var ErrOptions = errors.New("invalid options")

// Experiment is one experiment.
type Experiment struct {
	Name  string `json:"name"`  // on the command line
	About string `json:"about"` // the result in a line
	Long  string `json:"long"`  // the method, the paper and its sections
	// Run does the work and fills in the report. It returns ctx's error early, and reports
	// progress.
	Run func(ctx context.Context, o *Options, r *report.Report, progress Progress) error `json:"-"`
}

// Options configure a run. The zero value of a field selects the experiment's default.
type Options struct {
	Seed uint64 // of all random draws
	// Peers is the number of peers, Hours the virtual time.
	Peers int
	Sites int     // of experiments with a number of sites
	Hours float64 // of virtual time
	// RTT is a file with a matrix of round trips, Prefixes one with the addresses of its nodes,
	// Hierarchy IP ranges with organizations: see [internet.Options].
	RTT, Prefixes, Hierarchy string
	// Traces is a directory with the change times of pages, Every the mean days between visits of a
	// page.
	Traces string
	Every  float64
	// Quick selects a smaller run of seconds instead of minutes.
	Quick bool
}

// Validate returns an error for the first invalid option.
func (o *Options) Validate() error {
	switch {
	case o.Peers < 0:
		return fmt.Errorf("%w: peers %d", ErrOptions, o.Peers)
	case o.Sites < 0 || o.Sites > maxSites:
		return fmt.Errorf("%w: sites %d, want up to %d", ErrOptions, o.Sites, maxSites)
	case !(o.Hours >= 0 && o.Hours <= maxHours):
		return fmt.Errorf("%w: hours %v, want up to %d", ErrOptions, o.Hours, maxHours)
	case o.Every != 0 && !(o.Every >= minEvery && o.Every <= maxEvery):
		return fmt.Errorf("%w: every %v days, want %v to %d", ErrOptions, o.Every, minEvery, maxEvery)
	}
	return nil
}

// Larger values are taken as typing errors: a year, a million sites.
const (
	maxHours = 24 * 366
	maxSites = 1 << 20
	minEvery = 0.1
	maxEvery = 3660
)

// Either returns usual, or quick for a quick run.
func Either[T any](o *Options, usual, quick T) T {
	if o.Quick {
		return quick
	}
	return usual
}

// Count returns the number of --peers, default usual.
func (o *Options) Count(usual int) int { return cmp.Or(o.Peers, usual) }

// Length returns the virtual time of a run, default usual.
func (o *Options) Length(usual time.Duration) time.Duration {
	if o.Hours > 0 {
		return time.Duration(o.Hours * float64(time.Hour))
	}
	return usual
}

// Rand returns a random source of the seed, one per stream.
func (o *Options) Rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, stream)) }

// Progress receives the current step and the share done, 0 to 1. Experiments with several
// goroutines call it from them, one at a time.
type Progress func(text string, done float64)

// Run runs an experiment and writes its report to dir, which it creates if needed. The caller fills
// in version, commit and command of run. progress may be nil; calls may come from several
// goroutines, one at a time. Nothing is written if ctx ends.
func Run(ctx context.Context, e *Experiment, o Options, dir string, run report.Run, progress Progress) (*report.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string, float64) {}
	}
	r := new(report.Report)
	begun, used := time.Now(), machine.ProcessTime()
	err := e.Run(ctx, &o, r, progress)
	if err = cmp.Or(err, ctx.Err()); err == nil {
		run.Experiment, run.Seed, run.Begun, run.Seconds = e.Name, o.Seed, begun.UTC().Truncate(time.Second), time.Since(begun).Seconds()
		run.CPUSeconds = (machine.ProcessTime() - used).Seconds()
		err = r.Write(dir, &run)
	}
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	return r, nil
}

// Together does pieces of equal work, atOnce concurrently, and reports progress; rest more pieces
// follow. do returns a description of its work.
func Together(ctx context.Context, atOnce, pieces, rest int, progress Progress, do func(ctx context.Context, i int) (string, error)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	var mu sync.Mutex // guards done, and that progress is called once at a time
	done := 0
	for i := range pieces {
		g.Go(func() error {
			text, err := do(ctx, i)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			done++
			progress(text, float64(done)/float64(pieces+rest))
			return nil
		})
	}
	return g.Wait()
}
