// Command hostile puts hostile and unusual sites before real apoidea processes and judges them from
// outside: by the audit of the server of traps, by the kernel's counts and by the answers of the
// control API. scripts/hostile.sh and scripts/legit.sh build and run it.
//
//	hostile --work DIR [--quick] [--json] [--seed N] [FAMILY]...
//	hostile --work DIR --legit [--quick] [--json] [--peers N] [--profile lab | public] [--scale N] [SITE]...
//
// The files trap_*.go hold families of traps, which need a real process: floods, endless answers
// and silent hosts. What a single response can do wrong is tested with the packages in
// crawl/. A trial is one family before one peer that has crawled a small ordinary site before: its
// use of memory, goroutines and descriptors must be back at that level within a minute after the
// crawl.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/apoidea/apoidea/scripts/harness"
)

// options are those of the command line.
type options struct {
	work     string // directory for the trials' files
	quick    bool
	json     bool
	seed     uint64
	port     int
	serve    bool
	logLevel string
	extra    string // further flags of the peers
	legit    bool
	scale    int
	peers    int
	profile  string
}

func main() {
	families = hostileFamilies()
	var o options
	flag.BoolVar(&o.quick, "quick", false, "run the quick families before one peer at once, under 90 s")
	flag.BoolVar(&o.json, "json", false, "print one JSON document a trial, with the server's audit, instead of the table")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the moments when peers are interrupted")
	flag.IntVar(&o.port, "port", 18800, "first of the server's three ports: HTTP, HTTPS and DNS")
	flag.BoolVar(&o.serve, "serve", false, "serve the traps until interrupted, start no peer; print seeds and flags for one")
	flag.StringVar(&o.logLevel, "log-level", "warn", "log level of the peers")
	flag.StringVar(&o.extra, "flags", "", "further flags of the peers, separated by spaces")
	flag.BoolVar(&o.legit, "legit", false, "crawl real sites instead of traps (see scripts/legit.sh)")
	flag.IntVar(&o.scale, "scale", 10, "with --legit: divisor of each site's number of pages")
	flag.IntVar(&o.peers, "peers", 0, "with --legit: number of peers (default 1, and 4 for all sites at once)")
	flag.StringVar(&o.profile, "profile", "", "with --legit: lab or public (default: one after the other, with --quick lab)")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		for _, f := range families {
			line(f.name, f.does)
		}
		line("together", "all families before one peer")
		line("ring", "all families before a ring of four peers; ring=FAMILY is one of them")
		line("interrupt", "a peer a family, interrupted at some moment of the crawl; interrupt=FAMILY is one of them")
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		choose := hostilePlan
		if o.legit {
			choose = legitPlan
		}
		p, err := choose(&o, names)
		if err != nil {
			return false, err
		}
		return p.serve(ctx, &o)
	})
}

// plan is a list of trials.
type plan []trialPlan

type trialPlan struct {
	name      string
	families  []*family
	peers     int
	interrupt bool   // once, at some moment
	untilIdle bool   // crawl by `run --until-idle`, with the defaults of a job; otherwise by a posted job
	profile   string // of the peers
}

// hostilePlan makes the plan that the names ask for; without names the quick trial, or all.
func hostilePlan(o *options, names []string) (p plan, err error) {
	if len(names) == 0 && o.quick {
		var quick []*family
		for _, f := range families {
			if f.quick {
				quick = append(quick, f)
			}
		}
		return plan{{name: "quick", families: quick, peers: 1, untilIdle: true, profile: "public"}}, nil
	}
	if len(names) == 0 {
		for _, f := range families {
			names = append(names, f.name)
		}
		names = append(names, "interrupt", "together", "ring")
	}
	for _, name := range names {
		how, of, some := strings.Cut(name, "=")
		chosen := families
		if !some && byName(how) != nil {
			how, of = "", how
		}
		if of != "" {
			if chosen = []*family{byName(of)}; chosen[0] == nil {
				return nil, fmt.Errorf("%w family %q", harness.ErrUsage, of)
			}
		}
		t := trialPlan{name: strings.ReplaceAll(name, "=", " "), families: chosen, peers: 1, profile: "public"}
		switch how {
		case "":
			p = append(p, t)
		case "together":
			t.untilIdle = true
			p = append(p, t)
		case "ring":
			t.peers, t.untilIdle, t.profile = 4, true, "lab"
			p = append(p, t)
		case "interrupt":
			t.interrupt = true
			for _, f := range chosen {
				t.name, t.families = "interrupt "+f.name, []*family{f}
				p = append(p, t)
			}
		default:
			return nil, fmt.Errorf("%w family %q", harness.ErrUsage, name)
		}
	}
	return p, nil
}

// serve runs the trials while the world is there; with --serve, none until ctx ends.
func (p plan) serve(ctx context.Context, o *options) (fine bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	w, err := serveWorld(ctx, o.port)
	if err != nil {
		cancel()
		return false, err
	}
	defer w.group.Wait()
	defer cancel()
	if o.serve {
		w.introduce(os.Stdout)
		<-ctx.Done()
		return true, nil
	}
	return p.run(ctx, o, w)
}

// run runs the trials one after another and prints the verdicts.
func (p plan) run(ctx context.Context, o *options, w *world) (fine bool, err error) {
	if err := os.WriteFile(filepath.Join(o.work, caFile), w.ca.PEM, 0o600); err != nil {
		return false, err
	}
	// The still peer has nothing to do: asked at the same moments as the peers of a trial, it shows
	// how slow the machine is.
	still, err := start(ctx, o, "still", "--network", "still")
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
		for _, s := range r.sites {
			fine = fine && len(s.Wrong) == 0
			if err := s.Print(o.json, s, s.Site, s.line()); err != nil {
				return false, err
			}
		}
		if o.legit && len(r.Wrong) == 0 {
			continue
		}
		if err := r.Print(o.json, r, r.Name, r.line()); err != nil {
			return false, err
		}
	}
	return fine, nil
}
