package coordinates

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/adaptive"
	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
)

// coordRow is the result of a strategy.
type coordRow struct {
	name       string
	took       []float64 // of the downloads that succeeded, ms
	ok, failed int
	bytes      float64
	probes     int
	placed     int
	best       int // servers at the oracle's peer, or one within a tenth of its expected time
	paper      *coordPaper
}

// coordPaper is the thesis' table 5.8: ms, failed downloads and MB.
type coordPaper struct{ p90, p50, failed, mb float64 }

var coordPapers = map[string]*coordPaper{
	"proxy-0.15": {3824.68, 444.51, 4787, 9617.67},
	"proxy-0.25": {4286.96, 558.55, 5135, 8827.54},
	"random":     {5476.65, 760.55, 7033, 9633.58},
	"geo":        {6146.23, 775.51, 9371, 9998.86},
}

func runCoordStrategies(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	scale := scaleOf(o)
	noteScale(r, scale)
	r.Input("fitted", "stalls of downloads, to the 90th percentile of random; server times and noise, to the updates until assignment; not the gain of placement")
	thetas := []float64{0.15, 0.25}
	outcomes, err := estimateAll(ctx, net, o, scale, thetas, progress)
	if err != nil {
		return err
	}
	rows, err := compareStrategies(ctx, o, outcomes, thetas)
	if err != nil {
		return err
	}
	if rows[len(thetas)+1].ok == 0 {
		r.Input("geo", "no figures: the hosts have no position or country")
	} else {
		r.Input("geo", worlds.Locate(net, outcomes[0][0].world.peers[0].host).Precision.String())
	}
	for _, row := range rows {
		slices.Sort(row.took)
	}
	coordTable(r, rows)
	coordPlots(r, rows)
	return nil
}

func noteScale(r *report.Report, scale coordScale) {
	r.Input("sets", scale.sets)
	r.Input("peers_a_set", scale.peers)
	r.Input("hosts_a_batch", scale.hosts)
	r.Input("candidates", "all peers of a set")
}

// compareStrategies lets each strategy place the servers of every set, and fetches from them.
func compareStrategies(ctx context.Context, o *trial.Options, outcomes [][]*coordOutcome, thetas []float64) ([]*coordRow, error) {
	var rows []*coordRow
	add := func(name string) *coordRow {
		row := &coordRow{name: name, paper: coordPapers[name]}
		rows = append(rows, row)
		return row
	}
	for _, theta := range thetas {
		add(thetaRow(theta))
	}
	random, geo, oracle, live, best := add("random"), add("geo"), add("oracle"), add("coordinates-live"), add("adaptive")
	for set, first := range outcomes[0] {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w := first.world
		rnd := rand.New(rand.NewPCG(o.Seed+uint64(set), 0x7061676573)) // a small count
		for t := range thetas {
			rows[t].fetch(o, set, w, func(s int) int { return outcomes[t][set].chosen[s] })
		}
		random.fetch(o, set, w, func(int) int { return rnd.IntN(len(w.peers)) })
		geo.fetch(o, set, w, func(s int) int {
			if p, ok := w.geo(s); ok {
				return p
			}
			return coordUnplanned
		})
		oracle.fetch(o, set, w, w.oracle)
		live.place(o, set, first, coordinatesLive(first, o.Seed))
		best.place(o, set, first, adaptive.New(o.Seed+1))
	}
	return rows, nil
}

// fetch downloads pages of every server by its chosen peer. Each strategy gets the same pages:
// random draws depend only on set and server.
func (row *coordRow) fetch(o *trial.Options, set int, w *coordWorld, chosen func(server int) int) {
	for s := range w.servers {
		p := chosen(s)
		if p == coordUnplanned {
			continue
		}
		row.placed++
		if w.expected(p, s) <= 1.1*w.expected(w.oracle(s), s) {
			row.best++
		}
		rnd := rand.New(rand.NewPCG(o.Seed^uint64(set)<<40, uint64(s))) // small counts
		for range coordPages {
			bytes := pageSize(rnd)
			took, failed := w.download(rnd, p, s, bytes)
			if failed {
				row.failed++
				continue
			}
			row.ok++
			row.bytes += float64(bytes)
			row.took = append(row.took, took.Seconds()*1000)
		}
	}
}

// coordinatesLive returns the node's strategy for the first peer of a set.
func coordinatesLive(first *coordOutcome, seed uint64) placement.Strategy {
	cfg := coordinates.DefaultConfig()
	cfg.Theta = 0.15
	return coordinates.New(cfg, first.run.seenBy(0), seed)
}

// place lets a strategy of the node place all servers of a set, one per second, and fetches.
// Meanwhile placed servers are fetched from, a page per second each, and a strategy that observes
// learns from these pages as from workers' reports.
func (row *coordRow) place(o *trial.Options, set int, first *coordOutcome, strategy placement.Strategy) {
	w := first.world
	rnd := rand.New(rand.NewPCG(o.Seed+uint64(set), 0x6c697665)) // a small count
	begun := first.run.clock.Now()
	placed := make([]coordPlaced, len(w.servers))
	for s := range w.servers {
		now := begun.Add(time.Duration(s) * time.Second)
		if observer, ok := strategy.(placement.Observer); ok {
			for k := range placed[:s] {
				if p := &placed[k]; now.After(p.at) && p.pages < coordPages {
					p.pages++
					observe(rnd, w, observer, p.view, now, p.peer, k)
				}
			}
		}
		placed[s] = row.placeOne(rnd, first, strategy, now, s)
	}
	row.fetch(o, set, w, func(s int) int { return placed[s].peer })
}

// coordPlaced is a server with its worker, from when on, and how many of its pages were fetched
// while others were placed.
type coordPlaced struct {
	view  *placement.View
	peer  int
	at    time.Time
	pages int
}

// probing is how long a round of probes takes, estimating how long a page of an estimator.
const probing, estimating = time.Second, 10 * time.Second

// placeOne queries a strategy until it names a final worker.
func (row *coordRow) placeOne(rnd *rand.Rand, first *coordOutcome, strategy placement.Strategy, now time.Time, s int) coordPlaced {
	w, run := first.world, first.run
	v := &placement.View{Host: fmt.Sprintf("host%d", s), Site: w.servers[s].addr, Measured: make(map[string]placement.Measurement)}
	if at := w.net.Addr(w.servers[s].host); at.IsValid() {
		v.Site = at
	}
	for p := range w.peers {
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: w.peers[p].id, Self: p == 0, Addr: w.net.Addr(w.peers[p].host)})
	}
	observer, learns := strategy.(placement.Observer)
	for range coordURLs {
		v.Now = now
		c := strategy.Next(v)
		for _, id := range c.Probe {
			v.Measured[id] = placement.Measurement{RTT: w.ping(rnd, run.index[id], s)}
			row.probes++
		}
		switch {
		case len(c.Probe) > 0:
			now = now.Add(probing)
			continue
		case c.URLs != 1 || !learns:
			return coordPlaced{v, run.index[c.Worker], now, 0}
		}
		now = now.Add(estimating)
		observe(rnd, w, observer, v, now, run.index[c.Worker], s)
		clear(v.Measured)
	}
	return coordPlaced{v, 0, now, 0}
}

// observe fetches a page and reports it to a strategy.
func observe(rnd *rand.Rand, w *coordWorld, strategy placement.Observer, v *placement.View, now time.Time, p, s int) {
	bytes := pageSize(rnd)
	took, failed := w.download(rnd, p, s, bytes)
	strategy.Observe(&placement.Fetch{At: now, Host: v.Host, Site: v.Site, Worker: w.peers[p].id, Took: took, Bytes: int64(bytes), Failed: failed})
}

func coordTable(r *report.Report, rows []*coordRow) {
	add := func(row *coordRow, metric, unit string, paper, here float64) {
		if row.ok == 0 {
			here = math.NaN()
		}
		r.Table.Compare(row.name, metric, unit, paper, here)
	}
	none := math.NaN()
	byName := make(map[string]*coordRow)
	for _, row := range rows {
		byName[row.name] = row
		p := row.paper
		if p == nil {
			p = &coordPaper{none, none, none, none}
		}
		add(row, "download_p90_ms", "ms", p.p90, report.Quantile(row.took, 0.9))
		if row.name == "random" { // stalls were fitted to it
			r.Table.Within(report.NotCompared)
		}
		add(row, "download_p50_ms", "ms", p.p50, report.Quantile(row.took, 0.5))
		add(row, "failed", "downloads", p.failed, float64(row.failed))
		add(row, "mb", "MB", p.mb, row.bytes/1e6)
	}
	for _, row := range rows {
		for _, against := range []string{"random", "geo"} {
			if row.name == against || row.name == "random" {
				continue
			}
			base := byName[against]
			p90, p50 := none, none
			if row.paper != nil && base.paper != nil && row.name != "geo" {
				p90, p50 = 100*(row.paper.p90/base.paper.p90-1), 100*(row.paper.p50/base.paper.p50-1)
			}
			if base.ok == 0 {
				continue
			}
			less := func(of, than []float64, p float64) float64 {
				return 100 * (report.Quantile(of, p)/report.Quantile(than, p) - 1)
			}
			add(row, "p90_against_"+against, "%", p90, less(row.took, base.took, 0.9))
			add(row, "p50_against_"+against, "%", p50, less(row.took, base.took, 0.5))
		}
	}
	for _, row := range rows {
		add(row, "best_peer", "% within 10 %", none, 100*float64(row.best)/float64(row.placed))
		add(row, "probes_per_site", "probes", none, float64(row.probes)/float64(row.placed))
	}
}

// coordCharted are the rows in the order of a chart: strategies that placement has too have their
// colours from there.
func coordCharted(rows []*coordRow) (out []*coordRow) {
	for _, name := range []string{worlds.Oracle, "adaptive", thetaRow(0.15), "geo", "coordinates-live", "random", thetaRow(0.25)} {
		if i := slices.IndexFunc(rows, func(r *coordRow) bool { return r.name == name && r.ok > 0 }); i >= 0 {
			out = append(out, rows[i])
		}
	}
	return out
}

func coordPlots(r *report.Report, rows []*coordRow) {
	cdf := report.Plot{Name: "download-times", Title: "Download times by strategy", X: "download time, ms", Y: "% of downloads finished", LogX: true, YMin: 0, YMax: 100}
	bars := report.Plot{Name: "percentiles", Title: "Download times by strategy", Y: "download time, ms", Groups: []string{"median", "90th percentile"}}
	for _, row := range coordCharted(rows) {
		line := report.Percentiles(row.name, 99, func(percent int) float64 { return report.Quantile(row.took, float64(percent)/100) })
		line.Dashed = row.name == worlds.Oracle
		cdf.Lines = append(cdf.Lines, line)
		bars.Bars = append(bars.Bars, report.Bars{Label: row.name, Values: []float64{report.Quantile(row.took, 0.5), report.Quantile(row.took, 0.9)}})
	}
	r.Plots, r.Series = append(r.Plots, cdf, bars), append(r.Series, report.SeriesOf("download-times", "percent", "", cdf.Lines))
}
