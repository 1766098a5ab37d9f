// Command strangers attacks one of three real apoidea processes as whoever is on the internet
// could: with identities that are seconds old and belong to no ring. It judges from outside what
// others notice of it. scripts/strangers.sh builds and calls it.
//
//	strangers --work DIR [--quick] [ATTACK]...
//	strangers --work DIR --liars [--quick] [--ring open|invite] [ATTACK]...
//
// The ring crawls a small web meanwhile. An attack runs in a process of its own (--as NAME),
// bounded in time and in number, and reaches loopback only. At first the ring is measured while
// nobody attacks, and during each attack the same way: the heap of the peer that is attacked, the
// calls that an honest peer makes to it, and how long a fresh peer takes to join through it. In the
// end the crawl has to be whole. With --liars, the attacks are those of members of the ring, and
// each has a crawl of its own; scripts/liars.sh calls that.
package main

import (
	"context"
	"flag"
	"slices"
	"time"

	"github.com/apoidea/apoidea/scripts/harness"
)

// options are what the command line says.
type options struct {
	work     string // where peers keep their files
	quick    bool
	port     int
	pages    int // of a host of the web
	logLevel string

	liars bool   // attacks by members
	ring  string // of them: open, invite, or both if it is empty

	as, target, job string // for its own use: an attack to make, and on whom; the job of the ring, which anybody may read
	near            string // for its own use: the host or peer on the ring beside which liars stand
}

func main() {
	var o options
	flag.BoolVar(&o.quick, "quick", false, "the quick attacks, for a moment each, under a minute in all")
	flag.IntVar(&o.port, "port", 18810, "port of the web server")
	flag.StringVar(&o.logLevel, "log-level", "warn", "of the peers")
	flag.StringVar(&o.as, "as", "", "for its own use")
	flag.StringVar(&o.target, "target", "", "for its own use")
	flag.IntVar(&o.pages, "pages", 0, "for its own use")
	flag.StringVar(&o.job, "job", "", "for its own use")
	flag.StringVar(&o.near, "near", "", "for its own use")
	flag.BoolVar(&o.liars, "liars", false, "attacks by members, see scripts/liars.sh")
	flag.StringVar(&o.ring, "ring", "", "of liars: open or invite; both without it")
	flag.Usage = harness.Usage(func(line func(name, words string)) {
		if o.liars {
			for _, a := range lies {
				line(a.name, a.does)
			}
			return
		}
		for _, a := range attacks {
			line(a.name, a.does)
		}
	})
	harness.Main(&o.work, func(ctx context.Context, names []string) (bool, error) {
		if o.as != "" {
			return true, attackAs(ctx, &o)
		}
		if o.liars {
			return runLiars(ctx, &o, names)
		}
		chosen, err := choose(names, o.quick)
		if err != nil {
			return false, err
		}
		return run(ctx, &o, chosen)
	})
}

// choose finds attacks by name; without names the quick ones, or all.
func choose(names []string, quick bool) ([]*attack, error) {
	return harness.Choose(attacks, names, func(a *attack) string { return a.name }, func(a *attack) bool { return !a.member && (!quick || !a.slow) })
}

// lasts is how long an attack is made and measured at least; the fresh peer may take longer.
func (o *options) lasts() time.Duration {
	if o.quick {
		return 1500 * time.Millisecond
	}
	return 10 * time.Second
}

// run makes the attacks one after another and prints what came of them.
func run(ctx context.Context, o *options, chosen []*attack) (fine bool, err error) {
	members := slices.ContainsFunc(chosen, func(a *attack) bool { return a.member })
	s, err := open(ctx, o, time.Duration(len(chosen)+2)*(o.lasts()+turn))
	if err != nil {
		return false, err
	}
	defer s.close()
	rest := s.measure(ctx, &attack{name: "rest"})
	fine = rest.print()
	for _, a := range chosen {
		if ctx.Err() != nil {
			return false, ctx.Err()
		}
		r := s.measure(ctx, a)
		r.against(rest)
		fine = r.print() && fine
	}
	return s.finish(ctx, members).print() && fine, nil
}
