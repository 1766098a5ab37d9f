package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/apoidea/apoidea/cmd/apoidea/progress"
	"github.com/apoidea/apoidea/node/lab/experiment"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/ops/words"
)

func newExperiment(g *globals) *cobra.Command {
	cmd := &cobra.Command{Use: "experiment", Short: "Run reproducible experiments"}
	cmd.AddCommand(newExperimentList(g), newExperimentRun(g))
	return cmd
}

func newExperimentList(g *globals) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the experiments", Example: "  apoidea experiment list", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if g.json {
				return words.JSON(cmd.OutOrStdout(), experiment.All())
			}
			var rows [][]string
			for _, e := range experiment.All() {
				rows = append(rows, []string{e.Name, e.About})
			}
			return words.Table(cmd.OutOrStdout(), rows)
		},
	}
}

// experimentFlags are those of `experiment run`.
type experimentFlags struct {
	*globals
	out     string
	brief   bool
	options trial.Options
}

func newExperimentRun(g *globals) *cobra.Command {
	o := experimentFlags{globals: g}
	var long strings.Builder
	long.WriteString(`Run an experiment in virtual time and print its table, with the paper's figures beside ours. Where an experiment is drawn several times, a figure is the
median of the draws, and low and high are their 5th and 95th percentiles. The verdict is "reached" within 10 % of the paper's figure; a figure
that was fitted to the paper is "not comparable". DIR gets table.json, table.csv, run.json, SVG charts and more CSV files; run.json has the commit, the command line, the
machine and the CPU time. The expected time of more than 20 s is printed first. The same seed gives the same table. An interrupt leaves DIR unchanged.

`)
	for _, e := range experiment.All() {
		fmt.Fprintf(&long, "    %-22s  %s\n", e.Name, e.About)
	}
	long.WriteString("\nDetails: apoidea help experiments")
	cmd := &cobra.Command{
		Use:   "run NAME -o DIR",
		Short: "Run an experiment and write its table and charts",
		Long:  long.String(),
		Example: `  apoidea experiment run placement -o out --quick
  apoidea experiment run placement -o out --rtt planetlab-490.csv.gz --seed 7`,
		Args: exactly("the name of an experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVarP(&o.out, "out", "o", "", "output directory, created if missing (required)")
	f.Uint64Var(&o.options.Seed, "seed", 1, "random seed; the same seed gives the same table")
	f.IntVar(&o.options.Peers, "peers", 0, "number of peers (default the experiment's own)")
	f.IntVar(&o.options.Sites, "sites", 0, "number of sites to place (default the experiment's own)")
	f.Float64Var(&o.options.Hours, "hours", 0, "virtual hours (default the experiment's own)")
	f.StringVar(&o.options.RTT, "rtt", "", "RTT matrix in ms, square CSV, may be gzipped (default generated from the seed)")
	f.StringVar(&o.options.Prefixes, "prefixes", "", "addresses of the matrix nodes: CSV with columns node and prefix")
	f.StringVar(&o.options.Hierarchy, "hierarchy", "", "IP ranges and their organizations: CSV of nested networks")
	f.BoolVar(&o.options.Quick, "quick", false, "smaller run that takes seconds")
	f.BoolVar(&o.brief, "brief", false, "print ten lines at most: the papers' figures and verdicts")
	return cmd
}

// announced is the longest run whose expected time is not printed.
const announced = 20 * time.Second

func (o *experimentFlags) run(ctx context.Context, name string, out, errOut io.Writer) error {
	e, err := experiment.Find(name)
	if err != nil {
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if o.out == "" {
		return fmt.Errorf("%w: experiment run requires -o DIR", errUsage)
	}
	if expected := experiment.Expected(name, &o.options); !o.quiet && expected > announced {
		fmt.Fprintf(errOut, "%s: expected time %s on two cores with default options\n", name, expected)
	}
	progress, done := experimentProgress(errOut, o.quiet || o.brief)
	run := report.Run{Version: versionString(), Commit: cmp.Or(buildSetting("vcs.revision"), "unknown"), Command: append([]string{"apoidea"}, os.Args[1:]...)}
	found, err := trial.Run(ctx, e, o.options, o.out, run, progress)
	done()
	switch {
	case errors.Is(err, trial.ErrOptions):
		return fmt.Errorf("%w: %w", errUsage, err)
	case err != nil:
		return err
	case o.json:
		return words.JSON(out, found.Table)
	case o.quiet:
		return nil
	case o.brief:
		_, err = io.WriteString(out, found.Table.Brief())
		return err
	}
	_, err = fmt.Fprintf(out, "%s\nwritten to %s\n", found.Table.Text(), o.out)
	return err
}

// experimentProgress shows how far a run has come.
func experimentProgress(w io.Writer, quiet bool) (show trial.Progress, done func()) {
	if quiet {
		return func(string, float64) {}, func() {}
	}
	line, done := progress.Line(w)
	return func(text string, share float64) { line(fmt.Sprintf("%3.0f %%  %s", 100*share, text)) }, done
}
