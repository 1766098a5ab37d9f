// Package trial is what every experiment is: a name, options, a run that fills a report, and the
// same again with other draws.
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
)

// ErrOptions is returned for options that an experiment cannot work with.
var ErrOptions = errors.New("invalid options")

// Experiment is one experiment.
type Experiment struct {
	Name string // as the command line says it
	// About says in a line what is shown, Long in some more what is done and by which paper and
	// section.
	About, Long string
	// Run does the work and fills in the report. It ends early with ctx's error, and calls progress
	// now and then.
	Run func(ctx context.Context, o *Options, r *report.Report, progress Progress) error
}

// Options are what a run can be given. The zero value of a field means the experiment's own
// default.
type Options struct {
	Seed uint64 // of all that is drawn
	// Peers of the experiment, and the virtual hours that it takes.
	Peers int
	Sites int     // of the experiments that place so many
	Hours float64 // of virtual time
	// RTT is a matrix of round trips, Prefixes the addresses of its nodes, Hierarchy the IP ranges
	// with their organisations: files, see [internet.Options].
	RTT, Prefixes, Hierarchy string
	// Quick makes do with less: seconds in place of minutes.
	Quick bool
}

// Validate names the first option that makes no sense.
func (o *Options) Validate() error {
	switch {
	case o.Peers < 0:
		return fmt.Errorf("%w: peers %d", ErrOptions, o.Peers)
	case o.Sites < 0 || o.Sites > maxSites:
		return fmt.Errorf("%w: sites %d, want up to %d", ErrOptions, o.Sites, maxSites)
	case !(o.Hours >= 0 && o.Hours <= maxHours):
		return fmt.Errorf("%w: hours %v, want up to %d", ErrOptions, o.Hours, maxHours)
	}
	return nil
}

// More than a year, or than a million sites, is a slip of the finger.
const (
	maxHours = 24 * 366
	maxSites = 1 << 20
)

// Either is the usual figure of a run, or that of a quick one.
func Either[T any](o *Options, usual, quick T) T {
	if o.Quick {
		return quick
	}
	return usual
}

// Count is how many peers, or whatever --peers says of an experiment, unless the options say.
func (o *Options) Count(usual int) int { return cmp.Or(o.Peers, usual) }

// Length is how long a run takes in virtual time, unless the options say.
func (o *Options) Length(usual time.Duration) time.Duration {
	if o.Hours > 0 {
		return time.Duration(o.Hours * float64(time.Hour))
	}
	return usual
}

// Rand is a source of the seed, another one for each stream.
func (o *Options) Rand(stream uint64) *rand.Rand { return rand.New(rand.NewPCG(o.Seed, stream)) }

// Progress hears what a run is doing, and what share of the whole is done, 0 to 1. Experiments that
// have several goroutines call it from them, one at a time.
type Progress func(text string, done float64)

// Run runs an experiment and writes what it found into a directory, which is made if need be. The
// caller fills in version, commit and command of run. Progress may be nil; it is called from
// several goroutines if the experiment has several, one at a time. When ctx ends nothing is
// written.
func Run(ctx context.Context, e *Experiment, o Options, dir string, run report.Run, progress Progress) (*report.Report, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if progress == nil {
		progress = func(string, float64) {}
	}
	r := new(report.Report)
	begun := time.Now()
	err := e.Run(ctx, &o, r, progress)
	if err = cmp.Or(err, ctx.Err()); err == nil {
		run.Experiment, run.Seed, run.Begun, run.Seconds = e.Name, o.Seed, begun.UTC().Truncate(time.Second), time.Since(begun).Seconds()
		err = r.Write(dir, &run)
	}
	if err != nil {
		return nil, fmt.Errorf("experiment %s: %w", e.Name, err)
	}
	return r, nil
}

// Together does equal pieces of work, so many at once, and tells how many are done; rest more come
// after them. Do says what it has done.
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
