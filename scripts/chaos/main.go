// Command chaos does harm to a ring of real apoidea processes while it crawls a real web server,
// and judges what came of it by the server's own audit, by the truth of the generated web and by
// the records that the ring has in the end. scripts/chaos.sh builds and calls it.
//
//	chaos --work DIR [--quick] [--seed N] [--seeds N] [SCENARIO]...
//
// It prints one line a trial and exits with 1 if a bound is broken. A seed decides the web, who is
// harmed and when, counted in requests that the server has met; where on the ring a peer sits is
// drawn anew each time.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/apoidea/apoidea/scripts/harness"
)

// options are what the command line says.
type options struct {
	work     string // where trials keep their files
	quick    bool
	seed     uint64
	seeds    int // 0: as many as the scenario wants
	port     int
	logLevel string
	spaces   string // names of the network namespaces that this process was started in, see netns.go
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "a subset in small, under four minutes")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed")
	flag.IntVar(&o.seeds, "seeds", 0, "trials of each scenario, each with the next seed; 0 takes the scenario's own number")
	flag.IntVar(&o.port, "port", 18790, "port of the web server")
	flag.StringVar(&o.logLevel, "log-level", "warn", "of the peers")
	flag.StringVar(&o.spaces, "spaces", "", "for its own use")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, s := range scenarios {
			line(s.name, s.words)
		}
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		chosen, err := harness.Choose(scenarios, names, func(s *scenario) string { return s.name }, func(s *scenario) bool { return !o.quick || s.quickSeeds > 0 })
		return err == nil && runAll(ctx, o, chosen), err
	})
}

func runAll(ctx context.Context, o options, chosen []*scenario) bool {
	fine := true
	for _, s := range chosen {
		n := s.seeds
		if o.quick {
			n = max(s.quickSeeds, 1)
		}
		if o.seeds > 0 {
			n = o.seeds
		}
		for i := range n {
			if ctx.Err() != nil {
				return false
			}
			fine = runOne(ctx, o, s, o.seed+uint64(i)) && fine
		}
	}
	return fine
}

func runOne(ctx context.Context, o options, s *scenario, seed uint64) bool {
	if s.apart && o.spaces == "" {
		return runApart(ctx, o, s, seed)
	}
	t := newTrial(o, s, seed)
	if err := t.run(ctx); err != nil {
		t.Blame("%v", err)
	}
	_ = t.Print(false, nil, fmt.Sprintf("%s, seed %d:", s.name, seed), strings.Join(t.Notes, "; "))
	if len(t.Wrong) > 0 {
		return false
	}
	if os.Getenv("KEEP") != "1" { // a gigabyte a trial, of which there are forty
		if err := os.RemoveAll(t.dir); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
	}
	return true
}
