// Command churn simulates peers of a ring that join and die, and compares the owners with the
// truth.
//
//	go run ./scripts/churn -o DIR [-peers 10000] [-hours 0.1] [-seed 7] [-quick]
//
// It writes a table and charts as the experiments of the program do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/sim"
)

// churn measures how soon owners are correct while peers join and die.
var churn = trial.Experiment{
	Name:  "churn",
	About: "peers of a ring join and die: wrong owners, cost",
	Long: `A ring of --peers (2,000) in virtual time. Sessions are exponential with a median of 60 minutes and end with deaths, half of them silent. Joining peers keep the number of
peers constant for --hours (four minutes). Owners are compared with the global truth; then a tenth of all peers dies at once. A crawl under churn is a test: TestCrawlUnderChurn of
node/lab/sim.`,
	Run: runChurn,
}

func main() {
	var o trial.Options
	out := flag.String("o", "", "output directory (required)")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed of all random draws")
	flag.IntVar(&o.Peers, "peers", 0, "number of peers")
	flag.Float64Var(&o.Hours, "hours", 0, "virtual hours")
	flag.StringVar(&o.RTT, "rtt", "", "matrix of round trips in ms, square CSV")
	flag.BoolVar(&o.Quick, "quick", false, "400 peers")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := errors.New("churn: -o DIR is required")
	if *out != "" {
		var found *report.Report
		run := report.Run{Version: "scripts/churn", Commit: "unknown", Command: os.Args}
		if found, err = trial.Run(ctx, &churn, o, *out, run, func(text string, _ float64) { fmt.Fprintf(os.Stderr, "\r%s ", text) }); err == nil {
			fmt.Printf("\n%s\nwritten to %s\n", found.Table.Text(), *out)
		}
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runChurn(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	cfg := sim.ChurnConfig{
		Seed: o.Seed, Peers: o.Count(trial.Either(o, 2_000, 400)), For: o.Length(trial.Either(o, 4*time.Minute, 36*time.Second)), Internet: net,
	}
	cfg.Progress = func(done, all time.Duration) {
		share := done.Seconds() / all.Seconds()
		progress(fmt.Sprintf("%.0f %% of virtual time", 100*share), share)
	}
	r.Input("peers", cfg.Peers)
	r.Input("hours", cfg.For.Hours())
	alone, err := sim.RunChurn(ctx, cfg)
	if err != nil {
		return err
	}
	ringTable(r, fmt.Sprintf("ring-%d", cfg.Peers), alone)
	ringPlots(r, cfg.Peers, alone)
	return nil
}

func ringTable(r *report.Report, row string, c *sim.ChurnReport) {
	t := &r.Table
	share := func(part, whole int) float64 { return 100 * float64(part) / float64(whole) }
	t.Add(row, "peers", "mean", c.Peers)
	t.Add(row, "died", "peers", float64(c.Died))
	t.Add(row, "born", "peers", float64(c.Born))
	t.Add(row, "wrong_owners", "% of lookups", share(c.Churn.Wrong, c.Churn.Lookups))
	t.Add(row, "owner_not_found", "% of lookups", share(c.Churn.Failed, c.Churn.Lookups))
	t.Add(row, "owner_not_yet_serving", "% of lookups", share(c.Churn.Waiting, c.Churn.Lookups))
	t.Add(row, "wrong_owners_after_30s", "lookups", float64(c.Quiet.Wrong+c.Quiet.Failed+c.Quiet.Waiting))
	t.Add(row, "keys_not_with_owner_after_30s", "%", max(0, 100*(1-c.QuietOwned)-1e-9))
	t.Add(row, "keys_not_with_owner", "% mean", 100*(1-c.Owned))
	t.Add(row, "keys_not_with_owner_max", "%", 100*(1-c.OwnedMin))
	t.Add(row, "keys_with_wrong_owner_max", "%", 100*c.WrongMax)
	t.Add(row, "calls_per_lookup", "calls", float64(c.Churn.Calls)/float64(c.Churn.Lookups))
	t.Add(row, "upkeep_calls", "calls/peer/s", c.UpkeepCalls)
	t.Add(row, "upkeep_bytes", "B/peer/s", c.UpkeepBytes)
	t.Add(row, "killed_at_once", "peers", float64(c.Killed))
	t.Add(row, "owners_right_after", "s", seconds(c.Owners))
	t.Add(row, "settled_after", "s", seconds(c.Settled))
	t.Add(row, "wrong_owners_meanwhile", "% of lookups", share(c.Shock.Wrong, c.Shock.Lookups))
}

// seconds of a waiting time; NaN if the event did not occur.
func seconds(d time.Duration) float64 {
	if d < 0 {
		return math.NaN()
	}
	return d.Seconds()
}

func ringPlots(r *report.Report, peers int, c *sim.ChurnReport) {
	s := report.Series{Name: "ring", Columns: []string{
		"minutes", "peers", "keys_not_with_owner_pct", "keys_with_wrong_owner_pct", "lookups", "wrong", "failed", "waiting", "calls",
	}}
	var at, missing []float64
	for i := range c.Samples {
		p := &c.Samples[i]
		s.Rows = append(s.Rows, []float64{
			p.At.Minutes(), float64(p.Peers), 100 * (1 - p.Owned), 100 * p.Coverage.Wrong, float64(p.Lookups), float64(p.Wrong), float64(p.Failed),
			float64(p.Waiting), float64(p.Calls),
		})
		at = append(at, p.At.Minutes())
		missing = append(missing, max(0, 100*(1-p.Owned)))
	}
	r.Series = append(r.Series, s)
	plot := report.Plot{
		Name: "wrong-owners", Title: fmt.Sprintf("Keys without their owner in a ring of %d peers", peers), X: "minutes", Y: "% of all keys",
		Lines: []report.Line{{Label: "not served by their owner", X: at, Y: missing}, s.Line("served by another peer", 3)},
	}
	if n := len(c.Samples); c.Killed > 0 && n > 0 {
		for i := range c.Samples {
			if c.Samples[i].Peers <= c.Samples[0].Peers-c.Killed/2 {
				plot.Marks = []report.Mark{{X: at[max(i-1, 0)], Label: fmt.Sprintf("%d peers die", c.Killed)}}
				break
			}
		}
	}
	r.Plots = append(r.Plots, plot)
}
