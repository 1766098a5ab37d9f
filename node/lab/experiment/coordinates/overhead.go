package coordinates

import (
	"context"
	"math"
	"slices"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

func runCoordOverhead(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	scale := scaleOf(o)
	noteScale(r, scale)
	thetas := []float64{0.25, 0.15}
	outcomes, err := estimateAll(ctx, net, o, scale, thetas, progress)
	if err != nil {
		return err
	}
	median, within := []float64{64, 193}, []float64{108, math.NaN()}
	bound := []float64{0, 26}
	updates := report.Plot{Name: "updates", Title: "Updates until a server is assigned", X: "updates of its coordinate", Y: "% of servers assigned", YMin: 0, YMax: 100}
	errs := report.Plot{Name: "error", Title: "Median error of a batch during estimation", X: "minutes", Y: "relative error"}
	for t, theta := range thetas {
		sum := sumOutcomes(outcomes[t])
		row := thetaRow(theta)
		r.Table.Compare(row, "updates_p50", "fetches per server", median[t], report.Quantile(sum.updates, 0.5))
		r.Table.Within(report.NotCompared) // fitted
		r.Table.Compare(row, "updates_p90", "fetches per server", within[t], report.Quantile(sum.updates, 0.9))
		r.Table.Compare(row, "batches_at_bound", "%", bound[t], 100*float64(sum.atBound)/float64(sum.batches))
		r.Table.Add(row, "seconds_p50", "s", report.Quantile(sum.took, 0.5))
		servers := float64(len(sum.updates))
		r.Table.Add(row, "messages_per_server", "messages", float64(sum.messages.asks+sum.messages.reports+sum.messages.assignments)/servers)
		r.Table.Add(row, "bytes_per_server", "B", float64(sum.messages.bytes())/servers)
		updates.Lines = append(updates.Lines, report.Percentiles(row, 100, func(percent int) float64 { return report.Quantile(sum.updates, float64(percent)/100) }))
		line := report.Line{Label: row}
		for _, at := range outcomes[t][0].errs {
			line.Add(at[0], at[1])
		}
		errs.Lines = append(errs.Lines, line)
	}
	r.Series = append(r.Series, report.SeriesOf("updates", "percent_of_servers", "_updates", updates.Lines))
	r.Plots = append(r.Plots, updates, errs)
	return costOfSeven(ctx, net, o, r)
}

// sumOutcomes adds up the sets.
func sumOutcomes(sets []*coordOutcome) *coordOutcome {
	sum := new(coordOutcome)
	for _, s := range sets {
		sum.updates, sum.medians, sum.took = append(sum.updates, s.updates...), append(sum.medians, s.medians...), append(sum.took, s.took...)
		sum.atBound += s.atBound
		sum.batches += s.batches
		sum.messages.add(&s.messages)
	}
	for _, values := range [][]float64{sum.updates, sum.medians, sum.took} {
		slices.Sort(values)
	}
	return sum
}

func (m *coordMessages) add(n *coordMessages) {
	m.gossip += n.gossip
	m.asks += n.asks
	m.reports += n.reports
	m.assignments += n.assignments
	m.urls += n.urls
	m.results += n.results
}

// costOfSeven is 5.10 of the thesis: seven peers, one batch each, and the time that it takes.
func costOfSeven(ctx context.Context, net *internet.Internet, o *trial.Options, r *report.Report) error {
	scale := scaleOf(o)
	scale.peers = 7
	one, err := estimateSet(ctx, net, o.Seed+7, scale, 0.25)
	if err != nil {
		return err
	}
	one = sumOutcomes([]*coordOutcome{one})
	const row = "seven-peers-0.25"
	r.Table.Compare(row, "seconds_mean", "s", 1081, report.Mean(one.took))
	r.Table.Compare(row, "seconds_min", "s", 770, report.Quantile(one.took, 0))
	r.Table.Compare(row, "seconds_max", "s", 1374, report.Quantile(one.took, 1))
	r.Table.Compare(row, "updates_mean", "fetches per server", 67, report.Mean(one.medians))
	r.Table.Compare(row, "updates_min", "fetches per server", 45, report.Quantile(one.medians, 0))
	r.Table.Compare(row, "updates_max", "fetches per server", 101, report.Quantile(one.medians, 1))
	return nil
}
