package ipmicra

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/crawl/placement"
	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Download measures the benefit of placement by IPMicra.
var Download = trial.Experiment{
	Name:  "ipmicra-download",
	About: "IPMicra: download times by choice of crawler",
	Long: `IPMicra (Papapetrou and Samaras 2004; papers 2.6): 4 distant crawlers (--peers) place 1,000 sites, and the chosen one downloads a page of each. A download takes
connect, request, slow start and the server's time, which differs by server and request. Rows are the farthest crawler, a random one, and IPMicra with thresholds of 25
to 125 ms. In brute force all crawlers probe every site; oracle is the fastest download, known in advance. ipmicra-50-head probes by HTTP HEAD, which includes the
server's time; the other rows probe by connect. Figures are medians of 20 repeats with other crawlers and sites.

rtt_of_random is the mean round trip to the worker, relative to that of a random crawler. Without server time a page of any size takes a number of round trips that
depends on its size alone. So no mix of sizes gives a smaller download_of_random than brute force's rtt_of_random. The paper's tenth requires sites that are ten times
nearer to one crawler than to the others on average.

Row smallest-probe has the share of sites where the crawler with the smallest probe is the fastest. It covers one download each and mean downloads. Sites without an
address or a registered range fall back as in ipmicra-probes; row sites has their number.`,
	Run: runIPMicraDownload,
}

const (
	downloadCrawlers = 4
	downloadSites    = 1000
	// farPool is the number of hosts from which distant crawlers are chosen.
	farPool = 40
	// serverSpread is the spread of the logarithm of servers' medians around that of a usual one
	// (50 ms).
	serverSpread = 0.8
	serverUsual  = 50 * time.Millisecond
	// headBytes is the size of a HEAD response: one segment.
	headBytes = 500
)

// pages holds download times of a page of each site, by site and crawler.
type pages struct {
	took, expected, rtt [][]time.Duration
	head                [][]time.Duration // the time of a HEAD request instead
	random              []placed          // a random crawler for each site
}

// newPages draws sizes, servers and downloads.
func newPages(rnd *rand.Rand, scene *ipmicraScene) *pages {
	p := pages{rtt: scene.rtt}
	for _, rtt := range scene.rtt {
		size := internet.PageSize(rnd)
		server := time.Duration(float64(serverUsual) * math.Exp(serverSpread*rnd.NormFloat64()))
		var took, expected, head []time.Duration
		for _, rtt := range rtt {
			page := internet.Transfer{RTT: rtt, Bytes: size, Server: server}
			took = append(took, page.Time(rnd))
			expected = append(expected, page.Wire())
			head = append(head, internet.Transfer{RTT: rtt, Bytes: headBytes, Server: server}.Time(rnd))
		}
		p.took, p.expected, p.head = append(p.took, took), append(p.expected, expected), append(p.head, head)
	}
	return &p
}

// farApart chooses crawlers out of a pool: the two most distant, then always the one most distant
// from its nearest.
func farApart(net *internet.Internet, pool []int, count int) []int {
	var chosen []int
	best := time.Duration(-1)
	for i, a := range pool {
		for _, b := range pool[:i] {
			if d := net.RTT(a, b); d > best {
				best, chosen = d, []int{a, b}
			}
		}
	}
	for len(chosen) < count && len(chosen) < len(pool) {
		next, far := -1, time.Duration(-1)
		for _, a := range pool {
			if slices.Contains(chosen, a) {
				continue
			}
			nearest := time.Duration(math.MaxInt64)
			for _, b := range chosen {
				nearest = min(nearest, net.RTT(a, b))
			}
			if nearest > far {
				next, far = a, nearest
			}
		}
		chosen = append(chosen, next)
	}
	return chosen[:min(count, len(chosen))]
}

func runIPMicraDownload(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	runs, err := newIPMicraRuns(o, r, downloadCrawlers)
	if err != nil {
		return err
	}
	d := downloadRun{ipmicraRuns: runs, all: make(map[string][]float64)}
	if err := d.repeat(o, r, progress, func(rnd *rand.Rand) error { return d.once(ctx, rnd) }); err != nil {
		return err
	}
	downloadTable(r, &d.found, d.peers)
	downloadPlot(r, &d)
	return nil
}

// downloadRun is the running experiment.
type downloadRun struct {
	*ipmicraRuns
	all map[string][]float64 // ms of all downloads, by row
}

// draw chooses distant crawlers, and other hosts as sites.
func (d *downloadRun) draw(rnd *rand.Rand) (*ipmicraScene, error) {
	pool := max(farPool, d.peers)
	if size := d.net.Size(); size > 0 {
		pool = min(pool, max(d.peers, size/2))
	}
	hosts, sites, err := worlds.Hosts(d.net, rnd, pool, downloadSites, false)
	if err != nil {
		return nil, err
	}
	return d.scene(farApart(d.net, hosts, d.peers), sites)
}

func (d *downloadRun) once(ctx context.Context, rnd *rand.Rand) error {
	scene, err := d.draw(rnd)
	if err != nil {
		return err
	}
	p := newPages(rnd, scene)
	scene.describe(d.found.row("sites"))
	p.random = scene.drawn(rnd)
	d.judge("worst", p, scene.farthest())
	d.judge("random", p, p.random)
	place := func(name string, s placement.Strategy, probe func(int, int) time.Duration) error {
		all, err := scene.placeAll(ctx, s, probe)
		if err == nil {
			d.judge(name, p, all)
		}
		return err
	}
	for _, t := range thresholds {
		if err := place(fmt.Sprintf("ipmicra-%d", t), ipmicra.New(d.tree, time.Duration(t)*time.Millisecond), scene.ping); err != nil {
			return err
		}
	}
	head := func(site, crawler int) time.Duration { return p.head[site][crawler] }
	if err := place("ipmicra-50-head", ipmicra.New(d.tree, 0), head); err != nil {
		return err
	}
	if err := place("ipmicra-50-probe-sole", ipmicra.Machine{Tree: d.tree, ProbeSole: true}.Strategy(), scene.ping); err != nil {
		return err
	}
	d.judge("brute-force", p, scene.everybody())
	d.judge("oracle", p, scene.fixed(func(site int) int { return smallest(p.took[site]) }, 0))
	row := d.found.row("smallest-probe")
	row.add("connect_is_fastest", agreement(scene.rtt, p.took))
	row.add("head_is_fastest", agreement(p.head, p.took))
	row.add("connect_is_fastest_in_the_mean", agreement(scene.rtt, p.expected))
	row.add("head_is_fastest_in_the_mean", agreement(p.head, p.expected))
	return nil
}

func smallest(times []time.Duration) int { return slices.Index(times, slices.Min(times)) }

// agreement returns how often the smallest of one kind is that of the other, in percent; ties
// count.
func agreement(probe, took [][]time.Duration) float64 {
	same := 0
	for i := range probe {
		if took[i][smallest(probe[i])] == slices.Min(took[i]) {
			same++
		}
	}
	return 100 * float64(same) / float64(len(probe))
}

// times returns those of the sites as placed, in ms, sorted.
func times(by [][]time.Duration, all []placed) []float64 {
	out := make([]float64, len(all))
	for i := range all {
		out[i] = by[i][all[i].worker].Seconds() * 1000
	}
	slices.Sort(out)
	return out
}

// ofRandom returns the mean time relative to that of a random crawler.
func (p *pages) ofRandom(by [][]time.Duration, all []placed) float64 {
	return report.Mean(times(by, all)) / report.Mean(times(by, p.random))
}

func (d *downloadRun) judge(name string, p *pages, all []placed) {
	row := d.found.row(name)
	ms := times(p.took, all)
	row.add("download_mean", report.Mean(ms))
	row.add("download_p50", ms[len(ms)/2])
	row.add("download_p90", ms[len(ms)*9/10])
	row.add("download_of_random", p.ofRandom(p.took, all))
	row.add("rtt_of_random", p.ofRandom(p.rtt, all))
	row.add("optimal", share(all, func(*placed) bool { return true }, (*placed).optimal))
	row.add("probes_per_site", probesEach(all))
	d.all[name] = append(d.all[name], ms...)
}

func downloadTable(r *report.Report, found *probesRows, peers int) {
	paper := map[string]map[string]float64{
		"ipmicra-50": {"download_of_random": 0.1}, "brute-force": {"download_of_random": 0.1, "probes_per_site": downloadCrawlers}, "ipmicra-25": {"optimal": 90},
		"smallest-probe": {"connect_is_fastest": 91, "head_is_fastest": 92.5},
	}
	if peers != downloadCrawlers {
		paper = nil
	}
	units := map[string]string{
		"download_mean": "ms", "download_p50": "ms", "download_p90": "ms", "download_of_random": "of random's time", "rtt_of_random": "of random's round trip", "probes_per_site": "probes",
		"judged_and_trained": "sites", "tree_height": "levels",
	}
	found.table(r, paper, units)
}

// downloadPlot shows the distribution of download times.
func downloadPlot(r *report.Report, d *downloadRun) {
	spread := report.Plot{Name: "downloads", Title: fmt.Sprintf("Download time of a page, %d crawlers", d.peers), X: "download time, ms", Y: "% of sites", LogX: true, YMax: 100}
	for _, name := range []string{"worst", "random", "ipmicra-50", "ipmicra-25", "brute-force", "oracle"} {
		ms := slices.Sorted(slices.Values(d.all[name]))
		spread.Lines = append(spread.Lines, report.Percentiles(name, 99, func(percent int) float64 { return ms[len(ms)*percent/100] }))
	}
	r.Series, r.Plots = append(r.Series, report.SeriesOf("downloads", "percent", "_ms", spread.Lines)), append(r.Plots, spread)
}
