// Package placement lets each strategy place and crawl the same sites.
package placement

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/crawl/placement/registry"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Strategies compares all strategies on the same work.
var Strategies = trial.Experiment{
	Name:  "placement",
	About: "all placement strategies on the same work, and an oracle",
	Long: `The same crawl in virtual time for each strategy: --peers (12) crawlers and 1,000 sites, found over --hours (1). A site has about 170 pages, fetched
in sequence one second apart. optimal (within 1 ms of the nearest candidate), probes and excess (mean round trip above the nearest candidate's) cover
all sites from the first. Figures _first cover the first 200 sites. Figures _judged cover the last 35 %, after training on the others, as in the
paper. Download times cover the last 35 %. A probe has a random error, 0.3 ms on average, like that of a busy machine.

Plain rows work as in a live ring: the candidates of a host are its owner and the owner's leaf set (8 on each side). Owners learn separately, apart
from what they exchange. ipmicra's records are stored at ring owners. adaptive's samples go to the leaf set every second and on around the ring. Up to
4 peers beyond the leaf set are its candidates if samples show that they are nearer. Rows -all follow the papers: all peers are candidates and share
one memory. With up to 17 peers the candidates are the same. adaptive-blind is adaptive without site addresses, adaptive-alone adaptive without those
samples. oracle is the nearest leaf peer, oracle-all the nearest peer.

owner hashes hosts to peers, like crawlers without location (UbiCrawler, BUbiNG). oracle-all is a central assignment with full knowledge.

optimal_unseen and probes_unseen train on the sites of a random half of the places. They judge sites of the other half that are not within 1 ms of a
training site; adaptive does not learn from these. Each node of a matrix is a site; with fewer than 200 nodes, or with --sites, several sites share a
node. Figures are medians of five draws of peers and sites.

Papers: 2.6, 3.7 (definitions of coverage, overlap, communication and balance), 5.`,
	Run: func(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
		return runPlacement(ctx, o, &placementSetup{peers: o.Count(placementPeers), span: o.Length(time.Hour)}, r, progress)
	},
}

const (
	placementPeers   = 12
	placementSites   = 1000
	placementRepeats = 5
	// placementTrains is the share of training sites: 650 of 1,000 (papers 2.6).
	placementTrains = 0.65
	// firstSites are judged separately: the cost of a strategy before it has learned.
	firstSites = 200
	// quickSites, and a quarter of the pages, take seconds.
	quickSites = 300
)

func runPlacement(ctx context.Context, o *trial.Options, setup *placementSetup, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, false)
	if err != nil {
		return err
	}
	networks := net.Hierarchy()
	if setup.today {
		networks = registry.Order(slices.Concat(networks, cachesRegistered()))
	}
	tree, err := ipmicra.Build(networks)
	if err != nil {
		return fmt.Errorf("hierarchy: %w", err)
	}
	if size := net.Size(); o.Peers == 0 && 0 < size && size <= setup.peers {
		setup.peers = placementPeers
	}
	setup.sites, setup.crowded = cmp.Or(o.Sites, trial.Either(o, placementSites, quickSites)), o.Sites > 0
	setup.pages = trial.Either[float64](o, placementPages, placementPages/4)
	repeats := trial.Either(o, placementRepeats, 1)
	worlds, err := placementWorlds(o, net, tree, setup, repeats)
	if err != nil {
		return err
	}
	w := worlds[0]
	r.Input("peers", setup.peers)
	r.Input("sites", len(w.sites))
	r.Input("places", len(w.places()))
	r.Input("pages", w.pages())
	r.Input("repeats", repeats)
	r.Input("addresses", w.addressed)
	r.Input("geo", w.located)
	runs, err := runPlacements(ctx, worlds, progress)
	if err != nil {
		return err
	}
	placementTable(r, runs)
	placementPlots(r, runs)
	return nil
}

// placementWorlds draws a world for each repeat.
func placementWorlds(o *trial.Options, net *internet.Internet, tree *ipmicra.Tree, setup *placementSetup, repeats int) ([]*placementWorld, error) {
	var all []*placementWorld
	at := worlds.NewAddresses(o, net)
	for k := range repeats {
		rnd := o.Rand(uint64(k)<<32 ^ 0x706c616365) // not negative
		w, err := newPlacementWorld(net, tree, at, rnd, setup)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// placementRuns are the runs of one row.
type placementRuns struct {
	row  *placementRow
	runs []*placementRun // by repeat
	// unseen are the shares and probes of the held-back halves, NaN for strategies that do not
	// learn from probes.
	unseen, unseenProbes []float64
}

// runPlacements runs all rows over all worlds, a few at a time.
func runPlacements(ctx context.Context, worlds []*placementWorld, progress trial.Progress) ([]placementRuns, error) {
	rows, n := placementRows(worlds[0]), len(worlds)
	out := make([]placementRuns, len(rows))
	for i := range rows {
		out[i] = placementRuns{&rows[i], make([]*placementRun, n), make([]float64, n), make([]float64, n)}
	}
	return out, trial.Together(ctx, runtime.GOMAXPROCS(0), len(rows)*n, 0, progress, func(ctx context.Context, i int) (text string, err error) {
		p, k := &out[i/n], i%n
		if p.runs[k], err = newPlacementRun(worlds[k], p.row); err != nil {
			return "", err
		}
		if err := p.runs[k].crawl(ctx); err != nil {
			return "", err
		}
		p.unseen[k], p.unseenProbes[k] = math.NaN(), math.NaN()
		if p.row.learns && !p.row.all {
			p.unseen[k], p.unseenProbes[k], err = heldBack(worlds[k], p.row)
		}
		return fmt.Sprintf("%s, draw %d of %d", p.row.name, k+1, n), err
	})
}

// draws returns a figure of each repeat.
func (p *placementRuns) draws(of func(*placementRun) float64) []float64 {
	values := make([]float64, len(p.runs))
	for i, r := range p.runs {
		values[i] = of(r)
	}
	return values
}

func placementTable(r *report.Report, all []placementRuns) {
	best := make(map[*placementWorld][2]float64) // what the oracle's downloads take in the mean, with the live candidates and with all
	for i := range all {
		if k := all[i].row.candidates(); all[i].row.oracle {
			for _, run := range all[i].runs {
				b := best[run.w]
				b[k] = run.downloadMean()
				best[run.w] = b
			}
		}
	}
	for i := range all {
		p := &all[i]
		add := func(metric, unit string, of func(*placementRun) float64) {
			r.Table.Drawn(p.row.name, metric, unit, math.NaN(), p.draws(of))
		}
		judged := func(metric, unit string, of func(*hostRun) float64) {
			add(metric, unit, func(r *placementRun) float64 { return over(r.judged(), of) })
		}
		first := func(metric, unit string, of func(*hostRun) float64) {
			add(metric, unit, func(r *placementRun) float64 { return over(r.hosts[:min(len(r.hosts), firstSites)], of) })
		}
		add("optimal", "share", (*placementRun).optimal)
		add("probes_per_site", "probes", (*placementRun).probesEach)
		add("excess_ms", "ms", (*placementRun).excessEach)
		// IPMicra's own figures at 50 ms: 261 of 350 sites with 1,048 probes (papers 2.6).
		optimal, probes := math.NaN(), math.NaN()
		if p.row.paper {
			optimal, probes = 261.0/350, 1048.0/350
		}
		r.Table.Drawn(p.row.name, "optimal_judged", "share", optimal, p.draws(func(r *placementRun) float64 { return over(r.judged(), (*hostRun).optimal) }))
		r.Table.Drawn(p.row.name, "probes_judged", "probes", probes, p.draws(func(r *placementRun) float64 { return over(r.judged(), (*hostRun).asked) }))
		if p.row.learns {
			first("optimal_first", "share", (*hostRun).optimal)
			first("probes_first", "probes", (*hostRun).asked)
			first("excess_first_ms", "ms", (*hostRun).excessMS)
		}
		fetched := func(metric, unit string, of func(*placementRun) int) {
			add(metric, unit, func(r *placementRun) float64 { return float64(of(r)) / float64(r.fetches) })
		}
		if p.row.learns && !p.row.all {
			r.Table.Drawn(p.row.name, "optimal_unseen", "share", math.NaN(), p.unseen)
			r.Table.Drawn(p.row.name, "probes_unseen", "probes", math.NaN(), p.unseenProbes)
		}
		judged("estimating_fetches", "fetches/site", func(h *hostRun) float64 { return float64(h.estimating) })
		add("download_p50_ms", "ms", func(r *placementRun) float64 { return quantile(r.took, 0.5) })
		add("download_p90_ms", "ms", func(r *placementRun) float64 { return quantile(r.took, 0.9) })
		if p.row.estimates {
			add("download_p90_placed_ms", "ms", func(r *placementRun) float64 { return quantile(r.placed, 0.9) })
		}
		add("download_mean_ms", "ms", (*placementRun).downloadMean)
		add("download_of_oracle", "of the oracle's mean time", func(r *placementRun) float64 { return r.downloadMean() / best[r.w][p.row.candidates()] })
		judged("placed_after_ms", "ms", func(h *hostRun) float64 { return h.after.Seconds() * 1000 })
		fetched("messages_per_page", "messages", func(r *placementRun) int { return r.messages })
		fetched("bytes_per_page", "B", func(r *placementRun) int { return r.bytes })
		add("balance", "max/mean", func(r *placementRun) float64 { return report.Spread(r.loads()) })
		add("balance_deviation", "pages", func(r *placementRun) float64 { return report.Deviation(r.loads()) })
		add("coverage", "fetched/due", func(r *placementRun) float64 { return float64(r.onTime) / float64(r.w.pages()) })
		add("overlap", "(fetches-URLs)/URLs", (*placementRun).overlap)
		fetched("communication", "URLs sent/page", func(r *placementRun) int { return r.sent })
	}
}

// The strategies of a chart: no more than there are distinguishable colors.
var (
	scatterRows = []string{worlds.Oracle, "adaptive", "ipmicra", "geo", "coordinates", "random", "rtt", "adaptive-blind"}
	timesRows   = []string{worlds.Oracle, "adaptive", "ipmicra", "geo", "coordinates", "random", "worst"}
)

// placementPlots shows optimal sites by probes, and download times.
func placementPlots(r *report.Report, all []placementRuns) {
	scatter := report.Plot{Name: "optimal-probes", Title: "Optimal sites by probes, one dot per draw", X: "probes per site", Y: "% of sites at their nearest candidate", YMin: 0, YMax: 103}
	times := report.Plot{Name: "download-times", Title: "Downloads of the judged sites", X: "download time, ms", Y: "% of downloads finished", LogX: true, YMin: 0, YMax: 100}
	var placed report.Line
	for _, p := range named(all, scatterRows) {
		dots := report.Line{Label: p.row.name, Dots: true}
		for _, run := range p.runs {
			dots.Add(run.probesEach(), 100*run.optimal())
		}
		scatter.Lines = append(scatter.Lines, dots)
	}
	for _, p := range named(all, timesRows) {
		line := report.Percentiles(p.row.name, 99, func(percent int) float64 { return quantile(p.runs[0].took, float64(percent)/100) })
		line.Dashed = p.row.name == worlds.Oracle
		times.Lines = append(times.Lines, line)
		if p.row.estimates {
			placed = report.Percentiles(p.row.name+", by the worker", 99, func(percent int) float64 { return quantile(p.runs[0].placed, float64(percent)/100) })
		}
	}
	placed.Dashed = true
	times.Lines = append(times.Lines, placed)
	r.Plots = append(r.Plots, scatter, times)
}

// named returns the existing rows of these names, in order.
func named(all []placementRuns, names []string) (out []*placementRuns) {
	for _, name := range names {
		for i := range all {
			if all[i].row.name == name {
				out = append(out, &all[i])
			}
		}
	}
	return out
}
