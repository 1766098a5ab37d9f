// Command hostile puts hostile and unusual sites before real apoidea processes and judges from
// outside what became of them: by the audit of the server of traps, by the kernel's counts and by
// the answers of the control API. scripts/hostile.sh builds and calls it.
//
//	hostile --work DIR [--quick] [--json] [--seed N] [FAMILY]...
//	hostile --work DIR --legit [--quick] [--json] [--peers N] [--profile lab | public] [--scale N] [SHAPE]...
//
// One file trap_NAME.go holds a family of traps: what it does, what a good crawler does with it,
// and the server's side of it. A trial is one family before one peer that has crawled a small
// ordinary site before: what the peer uses then is the start's, and it has a minute after the crawl
// to come back to it. Without names, and not --quick, all families together are put before one peer
// and before a ring of four, and each family has a peer interrupted.
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
	json     bool
	seed     uint64
	port     int
	serve    bool
	logLevel string
	extra    string // further flags of the peers
	legit    legitOptions
}

func main() {
	families = allFamilies()
	var o options
	flag.BoolVar(&o.quick, "quick", false, "the quick families, all before one peer at once, under 90 s")
	flag.BoolVar(&o.json, "json", false, "print one JSON document a trial, with the server's audit, instead of the table")
	flag.Uint64Var(&o.seed, "seed", 1, "decides when peers are interrupted")
	flag.IntVar(&o.port, "port", 18800, "first of the server's three ports: HTTP, and HTTPS and DNS behind it")
	flag.BoolVar(&o.serve, "serve", false, "serve the traps until interrupted, start no peer; prints seeds and flags for one")
	flag.StringVar(&o.logLevel, "log-level", "warn", "of the peers")
	flag.StringVar(&o.extra, "flags", "", "further flags of the peers, by space")
	flag.BoolVar(&o.legit.on, "legit", false, "put real sites before the peers instead of traps (see scripts/legit.sh)")
	flag.IntVar(&o.legit.scale, "scale", 10, "of --legit: divides how many pages each site has")
	flag.IntVar(&o.legit.peers, "peers", 0, "of --legit: how many crawl (default one, and four crawl all shapes at once)")
	flag.StringVar(&o.legit.profile, "profile", "", "of --legit: lab or public (default: one after the other, with --quick lab)")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, f := range families {
			line(f.name, f.does)
		}
		line("together", "all families before one peer")
		line("ring", "all families before a ring of four peers; ring=FAMILY is one of them")
		line("interrupt", "a peer a family, interrupted at some moment of the crawl; interrupt=FAMILY is one of them")
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		if o.legit.on {
			families = []*family{&legitFamily}
			trials, err := legitPlan(&o, names)
			if err != nil {
				return false, err
			}
			return serving(ctx, &o, func(ctx context.Context, w *world) (bool, error) { return runLegit(ctx, &o, w, trials) })
		}
		p, err := choose(names, o.quick)
		if err != nil {
			return false, err
		}
		return serving(ctx, &o, func(ctx context.Context, w *world) (bool, error) { return p.run(ctx, &o, w) })
	})
}

// plan is what is to be done: each entry is one trial.
type plan []trialPlan

type trialPlan struct {
	name      string
	families  []*family
	peers     int
	interrupt bool // once, at some moment
	untilIdle bool // by `run --until-idle`, with the defaults of a job, else as a posted job
}

// choose makes the plan that the names ask for; without names the quick trial, or all.
func choose(names []string, quick bool) (plan, error) {
	if len(names) == 0 && quick {
		return plan{{name: "quick", families: quickFamilies(), peers: 1, untilIdle: true}}, nil
	}
	if len(names) == 0 {
		for _, f := range families {
			names = append(names, f.name)
		}
		names = append(names, "interrupt", "together", "ring")
	}
	var p plan
	for _, name := range names {
		how, of, one := strings.Cut(name, "=")
		switch {
		case name == "together":
			p = append(p, trialPlan{name: name, families: families, peers: 1, untilIdle: true})
		case name == "ring":
			p = append(p, trialPlan{name: name, families: families, peers: 4, untilIdle: true})
		case name == "interrupt":
			for _, f := range families {
				p = append(p, trialPlan{name: "interrupt " + f.name, families: []*family{f}, peers: 1, interrupt: true})
			}
		case one && how == "ring" && byName(of) != nil:
			p = append(p, trialPlan{name: "ring " + of, families: []*family{byName(of)}, peers: 4, untilIdle: true})
		case one && how == "interrupt" && byName(of) != nil:
			p = append(p, trialPlan{name: "interrupt " + of, families: []*family{byName(of)}, peers: 1, interrupt: true})
		case byName(name) != nil:
			p = append(p, trialPlan{name: name, families: []*family{byName(name)}, peers: 1})
		default:
			return nil, fmt.Errorf("%w family %q", harness.ErrUsage, name)
		}
	}
	return p, nil
}

// serving has the world there while trials are made; with --serve, and no trials, until ctx ends.
func serving(ctx context.Context, o *options, trials func(ctx context.Context, w *world) (fine bool, err error)) (fine bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w, err := serveWorld(ctx, o)
	if err != nil {
		return false, err
	}
	defer w.wait()
	defer cancel()
	if o.serve {
		w.introduce(os.Stdout)
		<-ctx.Done()
		return true, nil
	}
	return trials(ctx, w)
}

// run makes the trials one after another and prints the verdicts.
func (p plan) run(ctx context.Context, o *options, w *world) (fine bool, err error) {
	if err := os.WriteFile(caFile(o), w.ca.pem, 0o600); err != nil {
		return false, err
	}
	still, err := startStill(ctx, o)
	if err != nil {
		return false, err
	}
	defer still.Kill()
	fine = true
	for _, tp := range p {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		r := runTrial(ctx, o, w, still, tp)
		fine = fine && len(r.Wrong) == 0
		if err := r.Print(o.json, r, r.Name, r.line()); err != nil {
			return false, err
		}
	}
	return fine, nil
}
