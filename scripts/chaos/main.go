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
	"os/signal"
	"strings"
	"syscall"
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
	flag.StringVar(&o.work, "work", "", "directory for the trials' files; short, since sockets lie in it")
	flag.BoolVar(&o.quick, "quick", false, "a subset in small, under four minutes")
	flag.Uint64Var(&o.seed, "seed", 1, "first seed")
	flag.IntVar(&o.seeds, "seeds", 0, "trials of each scenario, each with the next seed; 0 takes the scenario's own number")
	flag.IntVar(&o.port, "port", 18790, "port of the web server")
	flag.StringVar(&o.logLevel, "log-level", "warn", "of the peers")
	flag.StringVar(&o.spaces, "spaces", "", "for its own use")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: chaos --work DIR [--quick] [--seed N] [--seeds N] [SCENARIO]...")
		for _, s := range scenarios {
			fmt.Fprintf(os.Stderr, "  %-17s %s\n", s.name, s.words)
		}
	}
	flag.Parse()
	var names []string
	for flag.NArg() > 0 { // flags may stand behind names
		names = append(names, flag.Arg(0))
		_ = flag.CommandLine.Parse(flag.Args()[1:]) // ends the process if it fails
	}
	chosen, err := choose(names, o.quick)
	if err == nil && o.work == "" {
		err = fmt.Errorf("--work is missing")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !runAll(ctx, o, chosen) {
		os.Exit(1)
	}
}

// choose finds scenarios by name; without names those of the quick subset or all.
func choose(names []string, quick bool) ([]*scenario, error) {
	var chosen []*scenario
	for _, name := range names {
		s := byName(name)
		if s == nil {
			return nil, fmt.Errorf("no scenario %q", name)
		}
		chosen = append(chosen, s)
	}
	if len(names) > 0 {
		return chosen, nil
	}
	for i := range scenarios {
		if !quick || scenarios[i].quickSeeds > 0 {
			chosen = append(chosen, &scenarios[i])
		}
	}
	return chosen, nil
}

func byName(name string) *scenario {
	for i := range scenarios {
		if scenarios[i].name == name {
			return &scenarios[i]
		}
	}
	return nil
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
	err := t.run(ctx)
	wrong := t.wrong
	if err != nil {
		wrong = append(wrong, err.Error())
	}
	line := fmt.Sprintf("%s, seed %d: %s", s.name, seed, strings.Join(t.figures, "; "))
	if len(wrong) > 0 {
		fmt.Printf("WRONG %s; WRONG: %s\n", line, strings.Join(wrong, "; "))
		return false
	}
	fmt.Println("ok    " + line)
	if os.Getenv("KEEP") != "1" { // a gigabyte a trial, of which there are forty
		if err := os.RemoveAll(t.dir); err != nil {
			fmt.Fprintln(os.Stderr, "chaos:", err)
		}
	}
	return true
}
