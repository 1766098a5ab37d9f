// Package bandwidth compares governors under a bandwidth limit (papers 4.3).
package bandwidth

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// Governors repeats section 3 of Diligenti et al. and adds our governor.
var Governors = trial.Experiment{
	Name:  "bandwidth",
	About: "crawling under a bandwidth limit: the paper's governor, its rival, and ours",
	Long: `Diligenti et al., section 3, figures 1 to 3 (papers 4.3): L = 140 KB/s, k = 0.3, sigma = 120. A fixed queue is replayed for each setting, over ` + fmt.Sprint(bandwidthServers) + ` simulated servers of different speeds
behind one line. The paper gives averages without naming its servers, fetchers or sizes, so ours are drawn, and nothing is fitted to its averages. Figures are medians of ten draws of
servers and queue. Charts show the first draw; chart order shows the medians. Rows -slow and -fast have servers of a quarter and of four times the rate. The row paper-6-to-2 has the ratio
of the use at max_d 6 to that at 2. A URL that was passed over is reserved after max_d completions or the mean download time, whichever is longer.

Rows paper-2 to paper-96 are the paper's governor by max_d. start-stop is its rival. ours is our governor above the hard limiter, as in a peer. Rows -limiter add the hard limiter, and
ours-alone omits it. use is mean use divided by the limit. A one-second window starts every 10 ms; windows_above is the share of them above 1.02 of the limit. windows_above_cap is the
share above the limit itself. order_violations is the share of fetches started while a higher score waited. known is the share of fetches from servers with estimates. For figure 1,
predicted is the mean of CB over a second, and measured the bytes received in it. predicted_above_cap and measured_above_cap are the shares of seconds above the limit.
predicted_error is the mean difference. estimate_error is the difference between B(u) and the rates of
downloads of known servers, relative to these rates. Downloads of different length differ in rate in any case.

Rows days- cover two weeks in which server rates depend on hour and kind of day (world.go, drawn by us), at max_d 6. 48-cells has the paper's estimates, one-cell one estimate per server.
Each hour is simulated for ten seconds, and the second week is judged. estimate_error_first_days covers the first Thursday to Saturday, when cells are still
empty. The 48 cells need visits on each kind of day: in the first three days they are worse than one cell. The error of CB is hardly smaller, since errors of several servers cancel out.`,
	Run: runBandwidth,
}

const (
	// bandwidthWarmUp in seconds is not counted: estimates are empty, and fetchers start in turn.
	bandwidthWarmUp = 60
	// windowAbove is the threshold of a window above the limit, relative to it.
	windowAbove = 1.02
	// paperTwo and paperSix are the paper's averages at max_d 2 and 6, in bytes per second.
	paperTwo, paperSix = 64_562.0, 71_788.0
	paperRatio         = paperSix / paperTwo
	// bandwidthDraws is the number of draws of servers and queue, quickDraws that of a quick run.
	bandwidthDraws, quickDraws = 10, 2
)

// bandwidthSetting is a row.
type bandwidthSetting struct {
	row, governor string
	depth         int
	limited       bool
	days          bool    // simulated over days
	oneCell       bool    // one estimate a server in place of 48
	speed         float64 // of the servers, relative to the others' world; 0 is 1
	paper         float64 // use, 0 if the paper gives none
}

func bandwidthSettings() []bandwidthSetting {
	settings := []bandwidthSetting{
		{row: "paper-2", governor: bandwidth.PaperGovernor, depth: 2, paper: paperTwo / bandwidthCap},
		{row: "paper-6", governor: bandwidth.PaperGovernor, depth: 6, paper: paperSix / bandwidthCap},
	}
	for _, depth := range []int{12, 24, 48, 96} {
		settings = append(settings, bandwidthSetting{row: fmt.Sprintf("paper-%d", depth), governor: bandwidth.PaperGovernor, depth: depth})
	}
	for _, depth := range []int{2, 6} {
		settings = append(settings,
			bandwidthSetting{row: fmt.Sprintf("paper-%d-slow", depth), governor: bandwidth.PaperGovernor, depth: depth, speed: 0.25},
			bandwidthSetting{row: fmt.Sprintf("paper-%d-fast", depth), governor: bandwidth.PaperGovernor, depth: depth, speed: 4})
	}
	return append(settings,
		bandwidthSetting{row: "start-stop", governor: bandwidth.StartStopGovernor, depth: 1},
		bandwidthSetting{row: "ours", governor: bandwidth.Ours, depth: 1, limited: true},
		bandwidthSetting{row: "ours-alone", governor: bandwidth.Ours, depth: 1},
		bandwidthSetting{row: "paper-2-limiter", governor: bandwidth.PaperGovernor, depth: 2, limited: true},
		bandwidthSetting{row: "paper-6-limiter", governor: bandwidth.PaperGovernor, depth: 6, limited: true},
		bandwidthSetting{row: "start-stop-limiter", governor: bandwidth.StartStopGovernor, depth: 1, limited: true},
		bandwidthSetting{row: "days-48-cells", governor: bandwidth.PaperGovernor, depth: 6, days: true},
		bandwidthSetting{row: "days-one-cell", governor: bandwidth.PaperGovernor, depth: 6, days: true, oneCell: true},
	)
}

// bandwidthRow holds the results of the draws of a setting.
type bandwidthRow struct {
	bandwidthSetting
	first *bandwidthRun // what is drawn
	draws []bandwidthFigures
	early []float64 // estimateError of the first three days
}

func runBandwidth(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	seconds := trial.Either(o, 20*60, 4*60)
	if o.Hours > 0 {
		seconds = max(int(o.Hours*3600), bandwidthWarmUp+int(2*bandwidthShown/time.Second))
	}
	draws := trial.Either(o, bandwidthDraws, quickDraws)
	r.Input("cap", bandwidthCap)
	r.Input("seconds", seconds)
	r.Input("servers", bandwidthServers)
	r.Input("fetchers", bandwidthFetchers)
	r.Input("draws", draws)
	var rows []bandwidthRow
	for _, s := range bandwidthSettings() {
		rows = append(rows, bandwidthRow{bandwidthSetting: s, draws: make([]bandwidthFigures, draws), early: make([]float64, draws)})
	}
	err := trial.Together(ctx, runtime.GOMAXPROCS(0), draws, 0, progress, func(ctx context.Context, k int) (string, error) {
		seed := o.Seed + uint64(k)*104_729 // a small count
		once, days := newBandwidthWorld(seed, seconds, 0), newBandwidthWorld(seed, daysPlayed*24*hourPlayed, hourPlayed)
		for i := range rows {
			row, world, from := &rows[i], once, bandwidthWarmUp
			if row.days {
				world, from = days, days.seconds/2
			}
			if row.speed > 0 {
				world = world.faster(row.speed)
			}
			run, err := world.play(ctx, &row.bandwidthSetting)
			if err != nil {
				return "", err
			}
			row.draws[k] = run.figures(from, world.seconds)
			if row.days {
				row.early[k] = run.figures(0, 3*24*hourPlayed)[estimateError]
			}
			if k == 0 {
				row.first = run
			}
		}
		return fmt.Sprintf("draw %d of %d", k+1, draws), nil
	})
	if err != nil {
		return err
	}
	trade := report.Plot{Name: "order", Title: "Order violations by use of the limit", X: "use of the limit, share", Y: "share started while a higher score waited"}
	paper := report.Line{Label: "paper, max_d 2 to 96"}
	runs := make(map[string]*bandwidthRun)
	use := make(map[string][]float64) // by row, then draw
	for i := range rows {
		row := &rows[i]
		row.table(&r.Table)
		runs[row.row] = row.first
		use[row.row] = row.of(bandwidthUse)
		used, violations := report.Median(row.of(bandwidthUse)), report.Median(row.of(bandwidthViolations))
		switch {
		case row.governor == bandwidth.PaperGovernor && !row.limited && !row.days && row.speed == 0:
			paper.Add(used, violations)
		case row.governor == bandwidth.Ours:
			trade.Lines = append(trade.Lines, report.Line{Label: row.row, Dots: true, X: []float64{used}, Y: []float64{violations}})
		}
	}
	for _, speed := range []string{"", "-slow", "-fast"} {
		var ratios []float64
		for k, two := range use["paper-2"+speed] {
			ratios = append(ratios, use["paper-6"+speed][k]/two)
		}
		r.Table.Drawn("paper-6-to-2"+speed, "use", "ratio", paperRatio, ratios)
		r.Table.Within(0.05) // less than half of the difference that the paper found
	}
	trade.Lines = append([]report.Line{paper}, trade.Lines...)
	r.Plots = append(r.Plots, bandwidthPlots(runs, seconds)...)
	r.Plots = append(r.Plots, trade)
	r.Series = append(r.Series, bandwidthSeries(rows))
	return nil
}

// play runs one setting in the world.
func (w *bandwidthWorld) play(ctx context.Context, s *bandwidthSetting) (*bandwidthRun, error) {
	cfg := bandwidth.EstimatesConfig{Location: time.UTC}
	if s.oneCell {
		cfg.Sigma = math.Inf(1) // a measurement counts for all hours alike
	}
	governor, err := bandwidth.New(s.governor, bandwidth.Config{
		Rate: bandwidthCap, MaxDepth: s.depth, Fetchers: bandwidthFetchers, Limited: s.limited,
	}, bandwidth.NewEstimates(cfg))
	if err != nil {
		return nil, err
	}
	run := &bandwidthRun{world: w, governor: governor, limited: s.limited, sameDay: s.oneCell}
	return run, run.run(ctx)
}

// Indices of bandwidthMetrics that are used elsewhere.
const bandwidthUse, estimateError, bandwidthViolations = 0, 7, 8

// bandwidthMetrics are the columns of the table, those for predictions only where the paper's
// governor has no limiter, which would make them true.
var bandwidthMetrics = [...]struct {
	name, unit string
	predicted  bool
}{
	bandwidthUse:        {name: "use", unit: "mean/L"},
	1:                   {name: "windows_above", unit: "share"},
	2:                   {name: "windows_above_cap", unit: "share"},
	3:                   {name: "predicted_mean", unit: "of L", predicted: true},
	4:                   {name: "predicted_above_cap", unit: "share", predicted: true},
	5:                   {name: "predicted_error", unit: "of L", predicted: true},
	6:                   {name: "predicted_over_measured", unit: "ratio", predicted: true},
	estimateError:       {name: "estimate_error", unit: "of the rate", predicted: true},
	bandwidthViolations: {name: "order_violations", unit: "share"},
	9:                   {name: "known", unit: "share"},
	10:                  {name: "deviation", unit: "of L"},
	11:                  {name: "fetches", unit: "1/s"},
	12:                  {name: "measured_above_cap", unit: "share", predicted: true},
}

// bandwidthFigures are the figures of a run, in the order of bandwidthMetrics.
type bandwidthFigures [len(bandwidthMetrics)]float64

// figures of a run between two seconds.
func (r *bandwidthRun) figures(first, last int) bandwidthFigures {
	from, to := first*stepsASecond, last*stepsASecond
	sum, square, n, above, aboveCap, window := 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
	for i := from; i < to; i++ {
		sum += r.came[i]
		window += r.came[i]
		if i < from+stepsASecond-1 {
			continue
		}
		if window > windowAbove*bandwidthCap {
			above++
		}
		if window > bandwidthCap*(1+1e-9) {
			aboveCap++
		}
		square += window * window
		n++
		window -= r.came[i-stepsASecond+1]
	}
	rate := sum / float64(last-first)
	const kB = bandwidthCap / 1000.0
	predicted, off, over, overMeasured := r.predicted()[first:last], 0.0, 0.0, 0.0
	for i, measured := range r.perSecond()[first:last] {
		off += math.Abs(predicted[i] - measured)
		if predicted[i] > kB*(1+1e-9) {
			over++
		}
		if measured > kB*(1+1e-9) {
			overMeasured++
		}
	}
	fetches, violations, known, rates, misses := 0.0, 0.0, 0.0, 0.0, 0.0
	for _, s := range r.starts {
		if s.step < from || s.step >= to {
			continue
		}
		fetches++
		if s.depth > 0 {
			violations++
		}
		if s.known {
			known++
		}
		if s.known && s.turned > 0 {
			rates += s.turned
			misses += math.Abs(s.rate - s.turned)
		}
	}
	return bandwidthFigures{
		rate / bandwidthCap, above / n, aboveCap / n,
		report.Mean(predicted) / kB, over / float64(len(predicted)), off / float64(len(predicted)) / kB, 1000 * report.Mean(predicted) / rate, misses / rates,
		violations / fetches, known / fetches,
		math.Sqrt(max(square/n-rate*rate, 0)) / bandwidthCap, fetches / float64(len(predicted)), overMeasured / float64(len(predicted)),
	}
}

// of returns the draws of a figure.
func (b *bandwidthRow) of(figure int) (values []float64) {
	for i := range b.draws {
		values = append(values, b.draws[i][figure])
	}
	return values
}

func (b *bandwidthRow) table(t *report.Table) {
	for i, m := range bandwidthMetrics {
		if m.predicted && (b.governor != bandwidth.PaperGovernor || b.limited) {
			continue
		}
		paper, values := math.NaN(), b.of(i)
		if i == bandwidthUse {
			paper = report.OrNone(b.paper)
		}
		t.Drawn(b.row, m.name, m.unit, paper, values)
	}
	if b.days {
		t.Add(b.row, "estimate_error_first_days", "of the rate", report.Mean(b.early))
	}
}

// perSecond returns the bytes received in each second, in kB.
func (r *bandwidthRun) perSecond() []float64 { return bySecond(r.came, 1000) }

// predicted returns the mean prediction in each second, in kB per second.
func (r *bandwidthRun) predicted() []float64 { return bySecond(r.expected, 1000*float64(stepsASecond)) }

// bySecond returns the sums of the steps of each second, divided.
func bySecond(steps []float64, by float64) []float64 {
	out := make([]float64, len(steps)/stepsASecond)
	for i := range out {
		for _, v := range steps[i*stepsASecond : (i+1)*stepsASecond] {
			out[i] += v / by
		}
	}
	return out
}

// bandwidthPlots returns the paper's three figures: 40 s from the middle.
func bandwidthPlots(runs map[string]*bandwidthRun, seconds int) []report.Plot {
	shown := int(bandwidthShown / time.Second)
	from := bandwidthWarmUp + (seconds-bandwidthWarmUp-shown)/2
	line := func(label string, values []float64) report.Line {
		l := report.Line{Label: label}
		for i, v := range values[from : from+shown] {
			l.Add(float64(i), v)
		}
		return l
	}
	limit := report.Line{Label: "cap", X: []float64{0, float64(shown - 1)}, Y: []float64{bandwidthCap / 1000, bandwidthCap / 1000}, Dashed: true}
	const x, y = "time, s", "kB per second"
	two, six := runs["paper-2"], runs["paper-6"]
	plots := []report.Plot{
		{Name: "predicted", Title: "The paper's governor: predicted and measured, max_d 6", X: x, Y: y, Lines: []report.Line{
			line("measured", six.perSecond()), line("predicted", six.predicted()), limit,
		}},
		{Name: "depth", Title: "The paper's governor: search depth of the queue", X: x, Y: y, Lines: []report.Line{
			line("max_d 6", six.perSecond()), line("max_d 2", two.perSecond()), limit,
		}},
		{Name: "rivals", Title: "Crawling under one limit: ours, the paper's, start-stop", X: x, Y: y, Lines: []report.Line{
			line("ours over the limiter", runs["ours"].perSecond()), line("start and stop", runs["start-stop"].perSecond()), line("paper, max_d 6", six.perSecond()),
			line("ours without limiter", runs["ours-alone"].perSecond()), limit,
		}},
	}
	for i := range plots { // from zero, or swings look larger than they are
		for _, l := range plots[i].Lines {
			plots[i].YMax = max(plots[i].YMax, 1.05*slices.Max(l.Y))
		}
	}
	return plots
}

// bandwidthSeries returns the rates of all settings by second, without those over days.
func bandwidthSeries(rows []bandwidthRow) report.Series {
	var seconds []float64
	for i := range rows[0].first.perSecond() {
		seconds = append(seconds, float64(i))
	}
	s := report.NewSeries("rates", "second", seconds)
	for i := range rows {
		if rows[i].days {
			continue
		}
		rates := rows[i].first.perSecond()
		for i, v := range rates {
			rates[i] = math.Round(1000 * v)
		}
		s.Column(rows[i].row, rates)
	}
	return s
}
