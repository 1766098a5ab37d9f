// Freshness compares schedules of visits to pages that change, in virtual time:
//
//	go run ./scripts/freshness -o DIR [-traces DIR] [-every DAYS] [-quick]
//
// -list prints its entry for the list of experiments.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"runtime"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// experiment replays the changes of pages.
var experiment = trial.Experiment{
	Name:  "freshness",
	About: "share of time in which copies are current, by schedule of visits, for 1 to 100 peers",
	Long: `This experiment is a program of its own, go run ./scripts/freshness.
The histories of pages in virtual time: -traces is a directory of .csv.gz files with page, host and unix_s. The first row of a page begins its history. Without
-traces, 500 pages change as Poisson processes for 720 days. Their rates are from a Gamma distribution of shape 0.5, with a mean of a change in ten days.
Column freshness is the share of page-time in which the copy is current, in the last three quarters of the trace. Each schedule has the same budget: a visit
to each page in -every days on average. The default is 14 without -traces. With traces it is 28, doubled until a page changes 0.2 times in it.

Policy uniform visits each page equally often. Policy proportional visits it in proportion to its true rate, oracle at the frequencies that are best for
the true rates. Nutch's rule multiplies the interval of a page by 0.8 after a change and by 1.4 otherwise. Policy bayes is crawl/fresh. It
learns rates from the visits only, and does not know when a change was. With 8 and 100 peers, pages belong to peers by the hash of the host, or of
the page if a trace has one host. Each peer has a share of the budget for its pages, and its own threshold, which follows those of 16 neighbors once an
hour. Rows alone do not follow. Column busiest is the visits of the busiest peer relative to its share.

Column gap_closed is the part of the gap between uniform and oracle; it is omitted if the gap is below 0.005. In rows important, a page has a weight from
Pareto(1.2) in budget and freshness. Figures are medians of ten draws of weights, phases of first visits, and owners.

Papers: 1.6 (refreshing), 2.4 (pages to check a day), 2.6 (pages watched for changes).`,
	Run: run,
}

func main() {
	var o trial.Options
	out := flag.String("o", "", "output directory (required)")
	list := flag.Bool("list", false, "print the entry for the list of experiments")
	flag.Bool("quiet", false, "ignored")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of all random draws")
	flag.IntVar(&o.Peers, "peers", 0, "number of peers")
	flag.StringVar(&o.Traces, "traces", "", "directory of *.csv.gz with page, host, unix_s (default generated from the seed)")
	flag.Float64Var(&o.Every, "every", 0, "mean days between visits of a page (default by trace)")
	flag.BoolVar(&o.Quick, "quick", false, "two draws of each figure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := errors.New("freshness: -o DIR is required")
	switch {
	case *list:
		err = json.NewEncoder(os.Stdout).Encode(&experiment)
	case *out != "":
		var found *report.Report
		run := report.Run{Version: "scripts/freshness", Commit: "unknown", Command: os.Args}
		if found, err = trial.Run(ctx, &experiment, o, *out, run, func(text string, _ float64) { fmt.Fprintf(os.Stderr, "\r%s ", text) }); err == nil {
			fmt.Printf("\n%s\nwritten to %s\n", found.Table.Text(), *out)
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

const draws = 10

// policies returns the names of the schedules and how they run: uniform, the oracle, and others.
// They end early with ctx.
func policies(ctx context.Context, o *trial.Options) (names []string, runs []func(*world) result) {
	names, runs = []string{"uniform", "oracle", "proportional", "nutch"}, []func(*world) result{uniform, oracle, proportional, nutch}
	n := o.Count(100)
	for i, peers := range []int{1, 8, n, n} {
		names = append(names, []string{"bayes", "bayes-8-peers", fmt.Sprintf("bayes-%d-peers", n), fmt.Sprintf("bayes-%d-peers-alone", n)}[i])
		runs = append(runs, func(w *world) result { return bayes(ctx, w, peers, i < 3) })
	}
	return names, runs
}

// kinds are the suffixes of rows, without and with importance.
var kinds = [2]string{"", "-important"}

func run(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	if o.Peers > maxPages {
		return fmt.Errorf("%w: peers %d, want up to %d", trial.ErrOptions, o.Peers, maxPages)
	}
	all, err := traces(o)
	if err != nil {
		return err
	}
	names, runs := policies(ctx, o)
	repeats := trial.Either(o, draws, 2)
	r.Input("repeats", repeats)
	results := make([][]result, len(all)*len(kinds)*repeats)
	err = trial.Together(ctx, runtime.GOMAXPROCS(0), len(results), 0, progress, func(ctx context.Context, i int) (string, error) {
		t, draw := all[i/repeats/len(kinds)], i%repeats
		w := newWorld(t, o.Rand(uint64(draw)<<32^0x66726573), i/repeats%len(kinds) == 1)
		for _, run := range runs {
			results[i] = append(results[i], run(w))
		}
		equal, gap := results[i][0][freshness], results[i][1][freshness]-results[i][0][freshness]
		for p := range runs {
			x := &results[i][p]
			x[above], x[closed] = x[freshness]-equal, math.NaN()
			if gap >= leastGap {
				x[closed] = x[above] / gap
			}
		}
		return t.name, ctx.Err()
	})
	if err != nil {
		return err
	}
	const axis = "trace, with and without importance"
	stale := report.Plot{Name: "stale", Title: "Page-time in which the copy is not current", X: axis, Y: "%", Bars: make([]report.Bars, len(runs))}
	gap := report.Plot{Name: "gap", Title: "Gap between uniform and oracle that is closed", X: axis, Y: "%", Bars: make([]report.Bars, len(runs))}
	for i := 0; i < len(results); i += repeats {
		t := all[i/repeats/len(kinds)]
		row := t.name + kinds[i/repeats%len(kinds)]
		r.Input(t.name, map[string]any{"pages": len(t.pages), "hosts": t.hosts, "days": math.Round(t.days), "changes_a_day": t.changes() * float64(len(t.pages)), "every": t.every})
		stale.Groups, gap.Groups = append(stale.Groups, row), append(gap.Groups, row)
		for p, name := range names {
			var median [figures]float64
			for k, metric := range metrics {
				var values []float64
				for _, draw := range results[i : i+repeats] {
					values = append(values, draw[p][k])
				}
				if median[k] = report.Median(values); !math.IsNaN(median[k]) {
					r.Table.Drawn(row+"-"+name, metric, units[k], math.NaN(), values)
				}
			}
			stale.Bars[p].Label, stale.Bars[p].Values = name, append(stale.Bars[p].Values, 100*(1-median[freshness]))
			gap.Bars[p].Label, gap.Bars[p].Values = name, append(gap.Bars[p].Values, 100*median[closed])
		}
	}
	gap.Bars = gap.Bars[3:] // 0 and 1 by definition, and far below 0
	r.Plots = []report.Plot{stale, gap}
	return nil
}

// result is the figures of a schedule in a draw.
type result [figures]float64

const (
	freshness = iota // share of the weighted page-time in which the copy is current
	above            // that of uniform
	closed           // part of the gap between uniform and oracle, NaN if that is below leastGap
	visits           // relative to the budget
	busiest          // the same, of the peer with the most
	figures
)

var (
	metrics = [figures]string{"freshness", "above_uniform", "gap_closed", "visits", "busiest"}
	units   = [figures]string{"share", "share", "share", "of the budget", "of its share"}
)

// leastGap is the smallest gap between uniform and oracle of which a share is given.
const leastGap = 0.005
