// Package bandwidth plays governors against each other under a cap (papers 4.3).
package bandwidth

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/bandwidth"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// Governors is section 3 of Diligenti et al., beside our governor.
var Governors = trial.Experiment{
	Name:  "bandwidth",
	About: "crawling under a bandwidth cap: the paper's admission by estimates, its rival, and ours",
	Long: `Diligenti et al., section 3, figures 1 to 3 (papers 4.3): L = 140 KB/s, k = 0.3, sigma = 120. A fixed queue is replayed for each setting over ` + fmt.Sprint(bandwidthServers) + `
simulated servers of different speeds behind one line. The paper gives averages without saying of which servers, so ours are drawn from the seed.

Rows paper-2 and paper-6 are the paper's governor with its max_d, start-stop is its rival, ours is ours over the hard limiter, as a peer runs it. Rows with
-limiter have the limiter beneath as well, ours-alone is ours without it. paper-equal is the paper's governor without a limiter at the first max_d from
which it uses as much as ours-alone, if any does. use is the mean over the cap, windows_above the share of one-second windows (one begins every 10 ms) above 1.02 of
it, windows_above_cap of those above the cap itself, order_violations the share of fetches started while a higher score waited, known that of fetches from servers with estimates.`,
	Run: runBandwidth,
}

const (
	// bandwidthWarmUp is not counted: estimates are empty, and the fetchers begin one after the
	// other.
	bandwidthWarmUp = 60
	// windowAbove is what counts as above the cap, in parts of it.
	windowAbove = 1.02
)

// bandwidthSetting is a row.
type bandwidthSetting struct {
	row, governor string
	depth         int
	limited       bool
	paper         float64 // use, 0 where the paper says nothing
}

func bandwidthSettings() []bandwidthSetting {
	return []bandwidthSetting{
		{row: "paper-2", governor: bandwidth.PaperGovernor, depth: 2, paper: 64_562.0 / bandwidthCap},
		{row: "paper-6", governor: bandwidth.PaperGovernor, depth: 6, paper: 71_788.0 / bandwidthCap},
		{row: "start-stop", governor: bandwidth.StartStopGovernor, depth: 1},
		{row: "ours", governor: bandwidth.Ours, depth: 1, limited: true},
		{row: "ours-alone", governor: bandwidth.Ours, depth: 1},
		{row: "paper-2-limiter", governor: bandwidth.PaperGovernor, depth: 2, limited: true},
		{row: "paper-6-limiter", governor: bandwidth.PaperGovernor, depth: 6, limited: true},
		{row: "start-stop-limiter", governor: bandwidth.StartStopGovernor, depth: 1, limited: true},
	}
}

// equalDepths are tried for paper-equal, and drawn.
var equalDepths = []int{2, 6, 12, 24, 48, 96}

func runBandwidth(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	seconds := trial.Either(o, 20*60, 4*60)
	if o.Hours > 0 {
		seconds = max(int(o.Hours*3600), bandwidthWarmUp+int(2*bandwidthShown/time.Second))
	}
	r.Input("cap", bandwidthCap)
	r.Input("seconds", seconds)
	r.Input("servers", bandwidthServers)
	r.Input("fetchers", bandwidthFetchers)
	world := newBandwidthWorld(o.Seed, seconds)
	settings := bandwidthSettings()
	steps := float64(len(settings) + len(equalDepths))
	runs := make(map[string]*bandwidthRun)
	for i, s := range settings {
		progress(s.row, float64(i)/steps)
		run, err := world.play(ctx, s)
		if err != nil {
			return err
		}
		runs[s.row] = run
		run.table(&r.Table, s)
	}
	alone := runs["ours-alone"].figures()
	trade := report.Plot{
		Name: "order", Title: "What the use of the cap costs in order", X: "use of the cap, share", Y: "share started while a higher score waited",
		Lines: []report.Line{{Label: "paper, max_d 2 to 96"}, {Label: "ours without limiter", Dots: true, X: []float64{alone.use}, Y: []float64{alone.violations}}},
	}
	over := runs["ours"].figures()
	trade.Lines = append(trade.Lines, report.Line{Label: "ours over the limiter", Dots: true, X: []float64{over.use}, Y: []float64{over.violations}})
	equal := false
	for i, depth := range equalDepths {
		s := bandwidthSetting{row: "paper-equal", governor: bandwidth.PaperGovernor, depth: depth}
		progress(fmt.Sprintf("paper, max_d %d", depth), (float64(len(settings))+float64(i))/steps)
		run, err := world.play(ctx, s)
		if err != nil {
			return err
		}
		f := run.figures()
		trade.Lines[0].Add(f.use, f.violations)
		if !equal && (f.use >= alone.use || i == len(equalDepths)-1) {
			equal = true
			run.table(&r.Table, s)
			r.Table.Add(s.row, "max_d", "URLs", float64(depth))
		}
	}
	r.Plots = append(r.Plots, bandwidthPlots(runs, seconds)...)
	r.Plots = append(r.Plots, trade)
	r.Series = append(r.Series, bandwidthSeries(settings, runs))
	return nil
}

// play runs one setting through the world.
func (w *bandwidthWorld) play(ctx context.Context, s bandwidthSetting) (*bandwidthRun, error) {
	estimates := bandwidth.NewEstimates(bandwidth.EstimatesConfig{Location: time.UTC})
	governor, err := bandwidth.New(s.governor, bandwidth.Config{
		Rate: bandwidthCap, MaxDepth: s.depth, Fetchers: bandwidthFetchers, Limited: s.limited,
	}, estimates)
	if err != nil {
		return nil, err
	}
	run := &bandwidthRun{world: w, governor: governor, limited: s.limited}
	return run, run.run(ctx)
}

// bandwidthFigures are what a run comes to, after the warm-up.
type bandwidthFigures struct{ use, above, aboveCap, violations, known, fetches, spread float64 }

func (r *bandwidthRun) figures() (f bandwidthFigures) {
	from := bandwidthWarmUp * stepsASecond
	sum, square, n, above, window := 0.0, 0.0, 0.0, 0.0, 0.0
	for i := from; i < len(r.came); i++ {
		sum += r.came[i]
		window += r.came[i]
		if i < from+stepsASecond-1 {
			continue
		}
		if window > windowAbove*bandwidthCap {
			above++
		}
		if window > bandwidthCap*(1+1e-9) {
			f.aboveCap++
		}
		square += window * window
		n++
		window -= r.came[i-stepsASecond+1]
	}
	rate := sum / float64(len(r.came)-from) * float64(stepsASecond)
	f.use, f.above, f.aboveCap = rate/bandwidthCap, above/n, f.aboveCap/n
	f.spread = math.Sqrt(max(square/n-rate*rate, 0)) / bandwidthCap
	for _, s := range r.starts {
		if s.step < from {
			continue
		}
		f.fetches++
		if s.depth > 0 {
			f.violations++
		}
		if s.known {
			f.known++
		}
	}
	f.violations /= f.fetches
	f.known /= f.fetches
	f.fetches /= float64(len(r.came)-from) / float64(stepsASecond)
	return f
}

func (r *bandwidthRun) table(t *report.Table, s bandwidthSetting) {
	f := r.figures()
	t.Compare(s.row, "use", "mean/L", report.OrNone(s.paper), f.use)
	t.Add(s.row, "windows_above", "share", f.above)
	t.Add(s.row, "windows_above_cap", "share", f.aboveCap)
	t.Add(s.row, "order_violations", "share", f.violations)
	t.Add(s.row, "known", "share", f.known)
	t.Add(s.row, "deviation", "of L", f.spread)
	t.Add(s.row, "fetches", "1/s", f.fetches)
}

// perSecond is what came in each second, in kB.
func (r *bandwidthRun) perSecond() []float64 {
	out := make([]float64, len(r.came)/stepsASecond)
	for i := range out {
		for _, b := range r.came[i*stepsASecond : (i+1)*stepsASecond] {
			out[i] += b / 1000
		}
	}
	return out
}

// predicted is what was expected at the beginning of each second, in kB a second.
func (r *bandwidthRun) predicted() []float64 {
	out := make([]float64, len(r.expected)/stepsASecond)
	for i := range out {
		out[i] = r.expected[i*stepsASecond] / 1000
	}
	return out
}

// bandwidthPlots are the paper's three figures: a piece of 40 s from the middle.
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
	const x, y = "time, s", "kB a second"
	two, six := runs["paper-2"], runs["paper-6"]
	plots := []report.Plot{
		{Name: "predicted", Title: "The paper's governor: predicted and measured, max_d 6", X: x, Y: y, Lines: []report.Line{
			line("measured", six.perSecond()), line("predicted", six.predicted()), limit,
		}},
		{Name: "depth", Title: "The paper's governor: how deep the queue is searched", X: x, Y: y, Lines: []report.Line{
			line("max_d 6", six.perSecond()), line("max_d 2", two.perSecond()), limit,
		}},
		{Name: "rivals", Title: "Crawling under one cap: ours, the paper, start and stop", X: x, Y: y, Lines: []report.Line{
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

// bandwidthSeries are the rates of all settings, second by second.
func bandwidthSeries(settings []bandwidthSetting, runs map[string]*bandwidthRun) report.Series {
	var seconds []float64
	for i := range runs[settings[0].row].perSecond() {
		seconds = append(seconds, float64(i))
	}
	s := report.NewSeries("rates", "second", seconds)
	for _, setting := range settings {
		rates := runs[setting.row].perSecond()
		for i, v := range rates {
			rates[i] = math.Round(1000 * v)
		}
		s.Column(setting.row, rates)
	}
	return s
}
