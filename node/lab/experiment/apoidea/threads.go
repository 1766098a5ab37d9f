package apoidea

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Threads repeats figure 5 of Apoidea.
var Threads = trial.Experiment{
	Name:  "apoidea-threads",
	About: "throughput of one peer by number of threads, with and without other load",
	Long: `Apoidea, figure 5 (papers 1.5). One peer crawls ` + fmt.Sprint(threadSites) + ` hosts of the given internet in virtual time. A thread waits for the network, then for the disk, then for its share
of the CPU. Under high load the crawler gets 3 % of the CPU. The paper measured this value beside its simulator. It is an input here, so the table does not compare it.

Rows pentium-550 model the paper's machine. A page costs 25 times the CPU time that it costs here today, and three disk accesses; the mean page has 10 kB. The paper
does not name its sites. Rows have sites anywhere, or the nearest family of apoidea-proximity (near sites). Rows today use what scripts/bench.sh measures. best_threads
is the smallest number that reaches 90 % of the best throughput. The cost of a page is measured; the speed of the paper's machines is estimated (machine.go). Apart from
the 3 %, no figure of the paper is an input. Memory is not modeled, so the paper's 30 MB have no row; scripts/bench.sh memory measures a real peer.`,
	Run: runApoideaThreads,
}

const (
	// threadSites is enough hosts to keep the largest number of threads busy.
	threadSites = 2048
	// nearBest is the share of the best throughput from which more threads do not count.
	nearBest = 0.9
)

// threadsCase is a line of the figure.
type threadsCase struct {
	row      string
	label    string // in a picture, if not row
	hardware *hardware
	load     float64
	threads  []int
	length   time.Duration
	// best and cpu are the paper's figures, 0 if it gives none.
	best, cpu float64
	// near selects the nearest family of sites instead of sites anywhere.
	near bool
}

func threadsCases() []threadsCase {
	few := []int{1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16, 24, 32}
	many := []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}
	return []threadsCase{
		{row: "pentium-550, high load", hardware: pentium(), load: highLoadShare, threads: few, length: 20 * time.Minute, best: 2},
		{row: "pentium-550, high load, near sites", hardware: pentium(), load: highLoadShare, threads: few, length: 20 * time.Minute, best: 2, near: true},
		{row: "pentium-550, low load", hardware: pentium(), load: 1, threads: few, length: 5 * time.Minute, best: 6, cpu: 30},
		{row: "pentium-550, low load, near sites", hardware: pentium(), load: 1, threads: few, length: 5 * time.Minute, best: 6, cpu: 30, near: true},
		{row: "today, high load", hardware: today(), load: highLoadShare, threads: many[:8], length: 2 * time.Minute},
		{row: "today, low load", hardware: today(), load: 1, threads: many, length: 10 * time.Second},
	}
}

func runApoideaThreads(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	anywhere, err := lonePeer(net, o.Rand(0x74687265), threadSites)
	if err != nil {
		return err
	}
	_, families, err := chooseFamilies(net, o.Rand(0x6e656172))
	if err != nil {
		return err
	}
	near := slices.Repeat(families[0][0], threadSites/familySites+1) // the nearest family of the first peer
	s := report.Series{Name: "threads", Columns: []string{"case", "threads", "pages_per_s", "cpu_pct"}}
	speed := report.Plot{Name: "pages", Title: "Throughput of one peer by threads", X: "threads", Y: "pages per second", LogX: true, LogY: true}
	relative := report.Plot{Name: "relative", Title: "Relative throughput of one peer by threads", X: "threads", Y: "pages per second, % of the best", LogX: true, YMin: 0, YMax: 110}
	cases := threadsCases()
	for n, c := range cases {
		s.Names = append(s.Names, c.row)
		progress(c.row, float64(n)/float64(len(cases)))
		c.length /= trial.Either[time.Duration](o, 1, 5)
		sites := anywhere
		if c.near {
			sites = near
		}
		var pages, cpu []float64
		for _, threads := range c.threads {
			// Each number of threads meets the same sites, pages and servers.
			got, err := runApoidea(ctx, o.Rand(0x6372776c), apoideaSetup{
				hardware: c.hardware, load: c.load, peers: 1, threads: threads, sites: sites, length: c.length,
			})
			if err != nil {
				return err
			}
			pages, cpu = append(pages, got.perPeer()), append(cpu, got.cpuShare())
			s.Rows = append(s.Rows, []float64{float64(n), float64(threads), got.perPeer(), got.cpuShare()})
		}
		threadsTable(&r.Table, &c, pages, cpu)
		line, part := report.Line{Label: c.row, Dashed: c.near}, report.Line{Label: c.row, Dashed: c.near}
		for i, v := range pages {
			line.Add(float64(c.threads[i]), v)
			part.Add(float64(c.threads[i]), 100*v/slices.Max(pages))
		}
		speed.Lines, relative.Lines = append(speed.Lines, line), append(relative.Lines, part)
	}
	r.Series = append(r.Series, s)
	r.Plots = append(r.Plots, speed, relative)
	return nil
}

// lonePeer draws a peer and sites, and returns the round trips. In a matrix several sites share a
// node.
func lonePeer(net *internet.Internet, rnd *rand.Rand, sites int) ([]time.Duration, error) {
	p, s, err := worlds.Hosts(net, rnd, 1, sites, true)
	if err != nil {
		return nil, err
	}
	var out []time.Duration
	for _, site := range s {
		out = append(out, net.RTT(p[0], site))
	}
	return out, nil
}

func threadsTable(t *report.Table, c *threadsCase, pages, cpu []float64) {
	best := slices.IndexFunc(pages, func(v float64) bool { return v >= nearBest*slices.Max(pages) })
	t.Compare(c.row, "best_threads", "threads", report.OrNone(c.best), float64(c.threads[best]))
	if c.load == 1 { // else it is what was put in
		t.Compare(c.row, "cpu_at_best", "%", report.OrNone(c.cpu), cpu[best])
	}
	if c.best > 0 {
		at := slices.Index(c.threads, int(c.best))
		t.Add(c.row, fmt.Sprintf("share_%d_threads", c.threads[at]), "% of the best", 100*pages[at]/slices.Max(pages))
	}
	for i, n := range c.threads {
		if n&(n-1) == 0 || n == 6 {
			t.Add(c.row, fmt.Sprintf("pages_%d_threads", n), "pages/s", pages[i])
		}
	}
}
