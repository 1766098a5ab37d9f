// Command damage spoils the data directory of a peer that crawled a synthetic web, in one way a
// trial, and holds the program to what docs/repair.md says of damage: check finds it, repair mends
// it, and after the same command as before every page is in the archive as the site has it, while
// nothing was asked for again that no damaged byte made necessary; and given once more it asks for
// nothing. scripts/damage.sh builds and calls it.
//
//	damage --work DIR [--quick] [--seed N] [--seeds N] [TRIAL]...
//
// It prints one line a trial and exits with 1 if one is WRONG. WARC files are read by code of its
// own.
package main

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"

	"github.com/apoidea/apoidea/crawl/webgen"
	"github.com/apoidea/apoidea/scripts/harness"
)

// options are what the command line says.
type options struct {
	work  string
	port  int
	quick bool
	seed  uint64
	seeds int
}

func main() {
	var o options
	flag.IntVar(&o.port, "port", 18890, "port of the web server")
	flag.BoolVar(&o.quick, "quick", false, "one trial of each kind of file, under two minutes")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed of the trials at random places")
	flag.IntVar(&o.seeds, "seeds", 0, "trials at random places (default 12, with --quick 2)")
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		if o.seeds == 0 {
			if o.seeds = 12; o.quick {
				o.seeds = 2
			}
		}
		return o.run(ctx, names)
	})
}

// run makes the data directories and spoils a copy in each trial.
func (o *options) run(ctx context.Context, names []string) (fine bool, err error) {
	chosen, err := harness.Choose(slices.Concat(trials, ringTrials, randomTrials(o)), names, func(t trial) string { return t.name }, func(t trial) bool { return t.quick || !o.quick })
	if err != nil {
		return false, err
	}
	var group sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); group.Wait() }()
	cfg := webgen.DefaultConfig()
	cfg.Hosts, cfg.PagesPerHost, cfg.Links, cfg.PageBytes = 6, 50, 20, 6000
	w, err := harness.ServeWeb(ctx, &group, fmt.Sprintf("127.0.0.1:%d", o.port), cfg)
	if err != nil {
		return false, err
	}
	var b *bases
	if err := harness.Try(func() { b = makeBases(ctx, o, w) }); err != nil {
		return false, fmt.Errorf("a sound data directory: %w", err)
	}
	fmt.Printf("%d pages in the archive, %d URLs without a page\n%-34s %-9s %-9s %6s %6s %6s  %s\n", len(b.pages), len(b.bare), "damage", "check", "repair", "asked", "may", "lost", "")
	fine = true
	for i := range chosen {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		r := chosen[i].run(ctx, o, b, i)
		fmt.Println(r)
		fine = fine && len(r.wrong) == 0
	}
	return fine, nil
}
