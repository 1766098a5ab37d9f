// Command damage spoils the data directory of a peer that crawled a synthetic web, in one way a
// trial, and holds the program to what docs/damage.md says of damage: check finds it, repair mends
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
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// options are what the command line says.
type options struct {
	work  string
	port  int
	quick bool
	seed  uint64
	seeds int
	names []string
}

func main() {
	var o options
	flag.StringVar(&o.work, "work", "", "directory for the trials' files; short, since sockets lie in it")
	flag.IntVar(&o.port, "port", 18890, "port of the web server")
	flag.BoolVar(&o.quick, "quick", false, "one trial of each kind of file, under a minute")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed of the trials at random places")
	flag.IntVar(&o.seeds, "seeds", 0, "trials at random places (default 12, with --quick 2)")
	flag.Parse()
	o.names = flag.Args()
	if o.seeds == 0 {
		if o.seeds = 12; o.quick {
			o.seeds = 2
		}
	}
	if o.work == "" {
		fmt.Fprintln(os.Stderr, "damage: --work is missing")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	wrong, err := run(ctx, &o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "damage:", err)
		os.Exit(1)
	}
	if wrong > 0 {
		fmt.Fprintf(os.Stderr, "damage: %d trials WRONG\n", wrong)
		os.Exit(1)
	}
}

// run makes the data directories and spoils a copy in each trial.
func run(ctx context.Context, o *options) (wrong int, err error) {
	w, err := serve(ctx, o.port)
	if err != nil {
		return 0, err
	}
	defer w.stop()
	b, err := makeBases(ctx, o, w)
	if err != nil {
		return 0, fmt.Errorf("a sound data directory: %w", err)
	}
	fmt.Printf("%d pages in the archive, %d URLs without a page\n%-34s %-9s %-9s %6s %6s %6s  %s\n", len(b.pages), len(b.bare), "damage", "check", "repair", "asked", "may", "lost", "")
	list := slices.Concat(trials, randomTrials(o))
	for i := range list {
		t := &list[i]
		if len(o.names) > 0 && !slices.Contains(o.names, t.name) || len(o.names) == 0 && o.quick && !t.quick {
			continue
		}
		if ctx.Err() != nil {
			return wrong, ctx.Err()
		}
		r := t.run(ctx, o, b, i)
		fmt.Println(r)
		if len(r.wrong) > 0 {
			wrong++
		}
	}
	return wrong, nil
}
