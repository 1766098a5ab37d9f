// Package coordinates repeats the experiments of Malet 2009 (papers 3.7): placement by network
// coordinates.
package coordinates

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Strategies repeats 5.7 and 5.8 of the thesis.
var Strategies = trial.Experiment{
	Name:  "coordinates-strategies",
	About: "download times of network coordinates, random and geographic placement (Malet 2009)",
	Long: `The thesis' comparison (5.7, 5.8): 7 independent sets of 10 peers in virtual time. Each peer gossips for half an hour, has all peers estimate one batch of 100 servers,
and assigns it. At the same moment the batch is also assigned by random, geo (smallest great-circle distance, by city or country) and the oracle (least expected time).
This is done at median errors of 0.25 and 0.15 each. Then the chosen peers fetch 18 pages per server, as in the thesis. All peers of a set are candidates.

Row coordinates-live is the strategy of the node as one owner sees it: servers are estimated one URL at a time. Row adaptive places one server per second, and fetches a
page per second from each placed one. It learns from these downloads which peers are slow. Peers are shared and partly busy, like PlanetLab's. How busy is fitted to
random's 90th percentile and to the updates of 5.9 (world.go). Rows _half cover a random half of the servers. --peers is the number of sets.`,
	Run: runCoordStrategies,
}

// Overhead repeats 5.9 and 5.10 of the thesis.
var Overhead = trial.Experiment{
	Name:  "coordinates-overhead",
	About: "cost of estimation until coordinates converge: fetches, messages, time (Malet 2009)",
	Long: `The same runs as coordinates-strategies (thesis 5.9). Figures are the updates of a server's coordinate until the median error of its batch is under
0.25 and 0.15, at most 300. One set of 7 peers is for thesis 5.10 (time to converge). Every update is a page that was due anyway. Noise and window
minimum are fitted to the two medians. --peers is the number of sets.`,
	Run: runCoordOverhead,
}

// The set-up of 5.7 to 5.9.
const (
	coordSets      = 7
	coordPeers     = 10
	coordHosts     = 100 // a batch: delta
	coordURLs      = 320 // a host: pi, and some that remain
	coordPages     = 18  // fetched of each server under each strategy: the thesis' 120,661 of 7,000 servers
	coordWarmUp    = 30 * time.Minute
	coordLongest   = 4 * time.Hour
	coordUnplanned = -1 // the peer of a server that a strategy cannot place
)

// coordOutcome is the result of one set under one threshold.
type coordOutcome struct {
	world    *coordWorld
	run      *coordRun
	chosen   []int         // peer by server
	updates  []float64     // of each server
	medians  []float64     // of the updates of each batch
	took     []float64     // of each batch, s
	atBound  int           // batches
	batches  int           // that were assigned
	messages coordMessages // in the time of the cycle
	beyond   int           // fetches beyond those due
	errs     [][2]float64  // minutes since the batch began, median error: of the first peer
}

// coordScale is the size of the comparison.
type coordScale struct{ sets, peers, hosts int }

func scaleOf(o *trial.Options) coordScale {
	return coordScale{o.Count(trial.Either(o, coordSets, 2)), coordPeers, trial.Either(o, coordHosts, 20)}
}

// estimateSet runs one set of peers with one threshold until every batch is assigned.
func estimateSet(ctx context.Context, net *internet.Internet, seed uint64, scale coordScale, theta float64) (*coordOutcome, error) {
	rnd := rand.New(rand.NewPCG(seed, 0x736574))
	w, err := newCoordWorld(net, rnd, scale.peers, scale.peers*scale.hosts)
	if err != nil {
		return nil, err
	}
	setup := paperSetup(theta)
	setup.cycle.hosts = scale.hosts
	run := newCoordRun(w, &setup, seed)
	out := &coordOutcome{world: w, run: run, chosen: make([]int, len(w.servers))}
	for s := range out.chosen {
		out.chosen[s] = coordUnplanned
	}
	fetched := make(map[string]bool)
	run.assigned = func(_ int, a *assignment) {
		for i := range a.urls {
			out.chosen[serverOf(a.urls[i].addr)] = run.index[a.to]
		}
	}
	run.fetched = func(_ int, u *pageURL, _ time.Duration, _ bool) {
		if fetched[u.url] {
			out.beyond++
		}
		fetched[u.url] = true
	}
	run.start()
	run.clock.Run(coordWarmUp)
	run.messages = coordMessages{}
	for i, c := range run.cycles {
		for k := range scale.hosts {
			c.add(run.bucket(i*scale.hosts+k, 0, coordURLs))
		}
	}
	begun := run.clock.Now()
	for slices.ContainsFunc(out.run.cycles, func(c *cycle) bool { return !c.done() }) && run.clock.Now().Sub(begun) < coordLongest {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		run.clock.Run(time.Minute)
		if c := run.cycles[0]; c.estimating() {
			out.errs = append(out.errs, [2]float64{run.clock.Now().Sub(begun).Minutes(), c.medianError(run.clock.Now())})
		}
	}
	out.collect()
	return out, nil
}

// collect reads the figures of the cycles.
func (o *coordOutcome) collect() {
	o.messages = o.run.messages
	for _, c := range o.run.cycles {
		s := &c.stats
		o.batches += s.batches
		o.atBound += s.atBound
		var of []float64
		for _, n := range s.updates {
			of = append(of, float64(n))
		}
		o.updates = append(o.updates, of...)
		if slices.Sort(of); len(of) > 0 {
			o.medians = append(o.medians, report.Quantile(of, 0.5))
		}
		for _, d := range s.took {
			o.took = append(o.took, d.Seconds())
		}
	}
}

// estimateAll runs all sets under several thresholds, as many at once as there are processors. The
// result is by threshold, then set.
func estimateAll(ctx context.Context, net *internet.Internet, o *trial.Options, scale coordScale, thetas []float64, progress trial.Progress) ([][]*coordOutcome, error) {
	out := make([][]*coordOutcome, len(thetas))
	for t := range out {
		out[t] = make([]*coordOutcome, scale.sets)
	}
	return out, trial.Together(ctx, 2, len(thetas)*scale.sets, 1, progress, func(ctx context.Context, i int) (text string, err error) {
		t, set := i/scale.sets, i%scale.sets
		out[t][set], err = estimateSet(ctx, net, o.Seed+uint64(set)*104_729, scale, thetas[t]) // a small count
		return fmt.Sprintf("set %d, error %v: estimated", set+1, thetas[t]), err
	})
}

// thetaRow names the row of a threshold.
func thetaRow(theta float64) string { return "proxy-" + strconv.FormatFloat(theta, 'g', -1, 64) }
