package coordinates

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// after returns the minutes from a time until a condition holds for a while; infinite if it never
// does.
func after(from, end int, holds func(minute int) bool) float64 {
	run := 0
	for m := from; m < end; m++ {
		if !holds(m) {
			run = 0
			continue
		}
		if run++; run == adaptSteady {
			return float64(m - from + 1 - run)
		}
	}
	return math.Inf(1)
}

// table adds the rows of a disturbance: medians over the repetitions.
func (d *disturbance) table(r *report.Report, traces []*adaptTrace) {
	var halves, stops, faster, back, peak, before, during []float64
	var probes [3][]float64 // before, while and after it is disturbed
	for _, t := range traces {
		was := t.share[d.from-1]
		if was < 2*adaptUnused {
			continue // no assignments to compare
		}
		halves = append(halves, after(d.from, d.to, func(m int) bool { return !(t.share[m] >= was/2) }))
		stops = append(stops, after(d.from, d.to, func(m int) bool { return !(t.share[m] >= adaptUnused) }))
		faster = append(faster, after(d.from, d.to, func(m int) bool { return t.mine[m] <= t.geo[m] }))
		back = append(back, after(d.to, d.minutes, func(m int) bool { return t.share[m] >= was/2 }))
		for i, part := range [][]float64{t.probes[:d.from], t.probes[d.from:d.to], t.probes[d.to:]} {
			probes[i] = append(probes[i], report.Sum(part))
		}
		if !d.strategy {
			peak = append(peak, slices.Max(t.err[d.from:d.to]))
		}
		before = append(before, t.mine[d.from-1]/t.geo[d.from-1])
		during = append(during, t.mine[d.to-1]/t.geo[d.to-1])
	}
	draws := func(metric, unit string, paper float64, values []float64) {
		r.Table.Drawn(d.name, metric, unit, paper, values)
	}
	draws("assignments_halve_after", "min", d.halves, halves)
	draws("stops_after", "min", d.stops, stops)
	if !math.IsNaN(traces[0].geo[0]) {
		draws("faster_than_geo_after", "min", d.faster, faster)
		draws("time_against_geo_before", "share", math.NaN(), before)
		draws("time_against_geo_in_the_end", "share", math.NaN(), during)
	}
	draws("used_again_after", "min", d.ret, back)
	if !d.strategy {
		paper := math.NaN()
		if d.name == "bandwidth" {
			paper = 0.43
		}
		draws("error_peak", "median error", paper, peak)
	} else {
		for i, when := range []string{"before", "while", "after"} {
			draws("probes_"+when, "probes per server", math.NaN(), probes[i])
		}
	}
	r.Table.Add(d.name, "repetitions_counted", "runs", float64(len(before)))
}

// plot adds charts of the first repetition in which the peer was in use.
func (d *disturbance) plot(r *report.Report, traces []*adaptTrace) {
	at := slices.IndexFunc(traces, func(t *adaptTrace) bool { return t.share[d.from-1] >= 2*adaptUnused })
	t := traces[max(at, 0)]
	s := report.Series{Name: d.name, Columns: []string{"minutes", "share_of_assignments_pct", "expected_ms", "geo_ms", "median_error", "median_distance_ms"}}
	for m := range t.share {
		s.Rows = append(s.Rows, []float64{float64(m), 100 * t.share[m], t.mine[m], t.geo[m], t.err[m], t.median[m]})
	}
	r.Series = append(r.Series, s)
	placed, geo := s.Line("placed", 2), s.Line("geo", 3)
	geo.Dashed = true
	marks := []report.Mark{{X: float64(d.from), Label: "begins"}, {X: float64(d.to), Label: "ends"}}
	r.Plots = append(r.Plots,
		report.Plot{
			Name: d.name + "-assignments", Title: "Assignments to the disturbed peer: " + d.name, X: "minutes", Y: "% of assigned URLs",
			Lines: []report.Line{s.Line("share", 1)}, Marks: marks,
		},
		report.Plot{
			Name: d.name + "-times", Title: "Expected download time: " + d.name, X: "minutes", Y: "download time, ms",
			Lines: []report.Line{placed, geo}, Marks: marks,
		})
}

// The set-up of 5.6.
const (
	slowMinutes, slowFrom, slowTo = 110, 58, 76
	slowExtra                     = 5000 // ms
)

// serverSlowdown is 5.6 of the thesis: a server becomes slow for all peers.
func serverSlowdown(net *internet.Internet, o *trial.Options, r *report.Report) error {
	rnd := o.Rand(0x736c6f77)
	w, err := newCoordWorld(net, rnd, adaptPeers, 1)
	if err != nil {
		return err
	}
	setup := paperSetup(0.25)
	setup.cycle.mode, setup.cycle.hosts, setup.cyclesAt = modePersistent, 1, []int{0}
	setup.cycle.outgoing = 1
	// A request each ten seconds of each estimator, as far as turns allow.
	setup.cycle.every, setup.estimator = 10*time.Second/(adaptPeers-1), estimatorConfig{every: time.Second, most: 1}
	setup.servers.Filter, setup.gossip.Filter = coordinates.SlowdownFilter, coordinates.SlowdownFilter
	run := newCoordRun(w, &setup, o.Seed)
	run.start()
	run.clock.Run(coordWarmUp)
	run.cycles[0].add(run.bucket(0, 0, 10*adaptURLs))
	s := report.Series{Name: "server", Columns: []string{"minutes", "distance_ms", "median_error", "pace"}}
	var distance, pace, errs []float64
	for m := range slowMinutes {
		switch m {
		case slowFrom:
			w.servers[0].extra = slowExtra
		case slowTo:
			w.servers[0].extra = 0
		}
		run.clock.Run(time.Minute)
		at, _ := run.tables[0].At(run.clock.Now(), w.servers[0].addr)
		me := run.gossip[0].At()
		distance = append(distance, at.Distance(&me))
		errs, pace = append(errs, at.Error), append(pace, run.tables[0].Pace(w.servers[0].addr))
		s.Rows = append(s.Rows, []float64{float64(m), distance[m], errs[m], pace[m]})
	}
	usual := distance[slowFrom-1]
	jump := func(from, end int, holds func(float64) bool) float64 {
		return after(from, end, func(m int) bool { return holds(distance[m]) })
	}
	r.Table.Compare("server", "distance_jumps_after", "min", 4, jump(slowFrom, slowTo, func(d float64) bool { return d > usual+slowExtra/4 }))
	r.Table.Compare("server", "distance_back_after", "min", 4, jump(slowTo, slowMinutes, func(d float64) bool { return d < usual+slowExtra*3/4 }))
	r.Table.Add("server", "error_peak", "error", slices.Max(errs[slowFrom:slowTo]))
	r.Table.Add("server", "asked_less_after", "min", after(slowFrom, slowTo, func(m int) bool { return pace[m] > 1 }))
	r.Series = append(r.Series, s)
	r.Plots = append(r.Plots, report.Plot{
		Name: "server-distance", Title: "Distance of a server slowed by " + strconv.Itoa(slowExtra/1000) + " s", X: "minutes", Y: "distance, ms", Lines: []report.Line{s.Line("distance", 1)},
		Marks: []report.Mark{{X: slowFrom, Label: "slow"}, {X: slowTo, Label: "as before"}},
	})
	return nil
}
