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
	"github.com/apoidea/apoidea/node/lab/internet"
)

// Adapt repeats 5.1 to 5.6 of the thesis.
var Adapt = trial.Experiment{
	Name:  "coordinates-adapt",
	About: "how fast coordinates react when a peer loses bandwidth or CPU, or a server slows down (Malet 2009)",
	Long: `Thesis 5.1 to 5.6 in virtual time. bandwidth: 8 peers, one of which holds 17 servers in persistent mode, error 0.3, for 140 minutes. From minute 33 to 80 the downloads of the most used peer
take five times as long. load: the same peers, 30 servers, 100 minutes. From minute 36 to 76 the process of the most used peer waits twenty times as long for its CPU, which also delays its
gossip. server: 7 estimators and one server that takes 5 s longer from minute 58 to 76. Where positions are available, peers and servers have those of the thesis. Six peers are in Europe, one
of which holds the servers; two peers and the servers are in America.

The thesis gives the filter for load (20, 0.2) and server (16, 0.5). bandwidth uses (10, 0.3) here, and rows -ours (8, 0.2). With (4, 0.25) assignments stop after seven minutes, as in the
thesis. But the error then stays above 0.3, and placement is never better than geo. A throttled peer fits no position: its downloads are slow while its gossip is as fast as before. A batch
above 0.3 is assigned after 300 updates per server (3.4, step 7); the chart of times shows it. Rows -ours also learn from downloads of assigned pages and keep few assignments waiting. adaptive
is the strategy of that name, queried every twenty seconds. It is the only one that probes again; probes_ figures count probes per server before, during and after the disturbance. geo uses
cities where the internet has them, as the synthetic one does. Figures are medians over --peers (5) repetitions. A repetition counts where the peer was in use before. All peers are candidates.`,
	Run: runCoordAdapt,
}

// disturbance is an experiment with a disturbance that begins and ends.
type disturbance struct {
	name               string
	servers, minutes   int
	from, to           int // minutes
	filter             coordinates.FilterConfig
	strike, heal       func(p *coordPeer)
	halves             float64 // the thesis' minutes, NaN where it has none
	stops, faster, ret float64
	ours               bool // feedback of assigned pages, short queue
	strategy           bool // adaptive in place of the cycle
}

func disturbances() []disturbance {
	slow, normal := func(p *coordPeer) { p.stretch = 5 }, func(p *coordPeer) { p.stretch = 1 }
	const busier = 20
	busy, idle := func(p *coordPeer) { p.wait *= busier }, func(p *coordPeer) { p.wait /= busier }
	none := math.NaN()
	short, shorter := coordinates.FilterConfig{Max: 8, Min: 3, Percentile: 0.2}, coordinates.FilterConfig{Max: 10, Min: 3, Percentile: 0.3}
	bandwidth := disturbance{name: "bandwidth", servers: 17, minutes: 140, from: 33, to: 80, filter: shorter, strike: slow, heal: normal, halves: none, stops: 7, faster: 12, ret: 35}
	load := disturbance{name: "load", servers: 30, minutes: 100, from: 36, to: 76, filter: coordinates.LoadFilter, strike: busy, heal: idle, halves: 2, stops: none, faster: none, ret: 9}
	out := []disturbance{bandwidth, load}
	for _, d := range []disturbance{bandwidth, load} {
		d.halves, d.stops, d.faster, d.ret, d.filter = none, none, none, none, short
		ours, best := d, d
		ours.name, ours.ours = d.name+"-ours", true
		best.name, best.strategy = d.name+"-adaptive", true
		out = append(out, ours, best)
	}
	return out
}

const (
	adaptPeers       = adaptEuropean + adaptAmerican
	adaptRepetitions = 5
	adaptURLs        = 12_000 // of a server: more than are ever assigned
	adaptSteady      = 3      // minutes that something must hold to count
	adaptUnused      = 0.05   // share of the assignments below which a peer is out of use
)

// adaptTrace holds the observations by minute.
type adaptTrace struct {
	share       []float64 // of the assigned URLs that went to the peer
	mine, geo   []float64 // mean expected download time in ms, of our placement and of geo's
	err, median []float64 // median error, and median distance from the servers to their peers
	probes      []float64 // of a server, by a strategy that probes
}

func runCoordAdapt(ctx context.Context, o *trial.Options, r *report.Report, progress trial.Progress) error {
	net, err := worlds.Internet(o, r, true)
	if err != nil {
		return err
	}
	repetitions := o.Count(trial.Either(o, adaptRepetitions, 2))
	r.Input("repetitions", repetitions)
	r.Input("candidates", "all peers of a set")
	where := "peers in Europe (6) and North America (2), servers in North America, as in the thesis"
	if _, _, ok := drawRegions(net, o.Rand(0), 1); !ok {
		where = "drawn at random: too few hosts have positions"
	}
	r.Input("regions", where)
	all := disturbances()
	traces := make([][]*adaptTrace, len(all))
	for i := range traces {
		traces[i] = make([]*adaptTrace, repetitions)
	}
	err = trial.Together(ctx, 2, len(all)*repetitions, 1, progress, func(ctx context.Context, n int) (text string, err error) {
		i, k := n/repetitions, n%repetitions
		if err := ctx.Err(); err != nil {
			return "", err
		}
		traces[i][k], err = all[i].run(net, o.Seed+uint64(k)*15_485_863) // a small count
		return fmt.Sprintf("%s, repetition %d done", all[i].name, k+1), err
	})
	if err != nil {
		return err
	}
	for i := range all {
		all[i].table(r, traces[i])
		all[i].plot(r, traces[i])
	}
	return serverSlowdown(net, o, r)
}

// run executes one repetition.
func (d *disturbance) run(net *internet.Internet, seed uint64) (*adaptTrace, error) {
	rnd := rand.New(rand.NewPCG(seed, 0x6164617074))
	var w *coordWorld
	if p, s, ok := drawRegions(net, rnd, d.servers); ok {
		w = coordWorldOf(net, rnd, p, s, d.servers)
	} else {
		var err error
		if w, err = newCoordWorld(net, rnd, adaptPeers, d.servers); err != nil {
			return nil, err
		}
	}
	a := &adapting{d: d, w: w, rnd: rnd, given: make([]float64, adaptPeers), used: make([]float64, adaptPeers), at: make([]int, d.servers)}
	if d.strategy {
		return a.byStrategy(seed)
	}
	return a.byCycle(seed), nil
}

// adapting is a running repetition.
type adapting struct {
	d      *disturbance
	w      *coordWorld
	rnd    *rand.Rand
	given  []float64 // URLs assigned to each peer in this minute
	used   []float64 // and before the disturbance
	at     []int     // the peer of each server at present
	asked  int       // probes in this minute
	struck int       // the peer that is disturbed
	trace  adaptTrace
}

// byCycle lets a persistent cycle place the servers.
func (a *adapting) byCycle(seed uint64) *adaptTrace {
	setup := paperSetup(0.3)
	setup.cycle.mode, setup.cycle.hosts, setup.cyclesAt = modePersistent, a.d.servers, []int{0}
	setup.servers.Filter, setup.gossip.Filter = a.d.filter, a.d.filter
	// A request each ten seconds for each server, as in the thesis: here each waits for the one
	// before, so estimators report their results at once.
	setup.estimator.every, setup.estimator.age = time.Second, 0
	if a.d.ours {
		setup.cycle.outgoing = 2
	}
	run := newCoordRun(a.w, &setup, seed)
	run.assigned = func(_ int, msg *assignment) {
		p := run.index[msg.to]
		a.given[p] += float64(len(msg.urls))
		last := -1
		for i := range msg.urls {
			s := serverOf(msg.urls[i].addr)
			a.at[s] = p
			if a.d.ours && s != last { // the first page of each server in the message is reported
				a.feed(run, p, s)
			}
			last = s
		}
	}
	run.start()
	run.clock.Run(coordWarmUp)
	for s := range a.d.servers {
		run.cycles[0].add(run.bucket(s, 0, adaptURLs))
	}
	for minute := range a.d.minutes {
		a.disturb(minute)
		run.clock.Run(time.Minute)
		now := run.clock.Now()
		a.minute(minute, run.cycles[0].medianError(now), a.distance(run, now))
	}
	return &a.trace
}

// feed updates a server's coordinate from the download of an assigned page.
func (a *adapting) feed(run *coordRun, p, s int) {
	took, failed := a.w.download(a.rnd, p, s, pageSize(a.rnd))
	run.clock.After(took, func() {
		if at, ok := run.seenBy(0).Of(run.ids[p]); ok && !failed {
			run.tables[0].Observe(run.clock.Now(), a.w.servers[s].addr, run.ids[p], &at, took)
		}
	})
}

// disturb starts and ends the disturbance of the most used peer.
func (a *adapting) disturb(minute int) {
	switch minute {
	case a.d.from: // minute has noted which it is
		a.d.strike(&a.w.peers[a.struck])
	case a.d.to:
		a.d.heal(&a.w.peers[a.struck])
	}
}

// minute records the results of a minute.
func (a *adapting) minute(minute int, err, distance float64) {
	total, mine, geo := 0.0, 0.0, 0.0
	for p, n := range a.given {
		total += n
		if minute < a.d.from {
			a.used[p] += n
		}
	}
	for s := range a.at {
		mine += a.w.expected(a.at[s], s)
		if p, ok := a.w.geo(s); ok {
			geo += a.w.expected(p, s)
		} else {
			geo = math.NaN()
		}
	}
	share := math.NaN()
	if total > 0 {
		share = a.given[a.struck] / total
	}
	n := float64(len(a.at))
	t := &a.trace
	t.share, t.mine, t.geo = append(t.share, share), append(t.mine, mine/n), append(t.geo, geo/n)
	t.err, t.median = append(t.err, err), append(t.median, distance)
	if minute == a.d.from-1 { // which peer it will be is known only now
		for p := range a.used {
			if a.used[p] > a.used[a.struck] {
				a.struck = p
			}
		}
		for i := range t.share {
			t.share[i] = a.used[a.struck] / max(report.Sum(a.used), 1)
		}
	}
	t.probes = append(t.probes, float64(a.asked)/n)
	clear(a.given)
	a.asked = 0
}

// distance is the median from the servers to the peers that have them.
func (a *adapting) distance(run *coordRun, now time.Time) float64 {
	var all []float64
	for s := range a.at {
		at, ok := run.tables[0].At(now, a.w.servers[s].addr)
		peer, known := run.seenBy(0).Of(run.ids[a.at[s]])
		if ok && known {
			all = append(all, at.Distance(&peer))
		}
	}
	slices.Sort(all)
	return report.Quantile(all, 0.5)
}

// byStrategy lets a strategy of the node place the servers. It is queried every twenty seconds and
// gets a page of each server every five.
func (a *adapting) byStrategy(seed uint64) (*adaptTrace, error) {
	strategy := adaptive.New(seed + 1)
	const ask, fetch = 20, 5 // seconds
	now := time.Unix(1_600_000_000, 0)
	for minute := range a.d.minutes {
		a.disturb(minute)
		for second := 0; second < 60; second += fetch {
			for s := range a.at {
				v := a.view(now, s)
				if second%ask == 0 {
					var err error
					if a.at[s], err = a.ask(strategy, v, s); err != nil {
						return nil, err
					}
				}
				observe(a.rnd, a.w, strategy, v, now, a.at[s], s)
				a.given[a.at[s]]++
			}
			now = now.Add(fetch * time.Second)
		}
		a.minute(minute, math.NaN(), math.NaN())
	}
	return &a.trace, nil
}

// view returns a strategy's view of a server.
func (a *adapting) view(now time.Time, s int) *placement.View {
	v := &placement.View{Now: now, Host: fmt.Sprintf("host%d", s), Site: a.w.servers[s].addr, Measured: make(map[string]placement.Measurement)}
	for p := range a.w.peers {
		v.Candidates = append(v.Candidates, placement.Candidate{Peer: a.w.peers[p].id, Self: p == 0})
	}
	return v
}

// ask lets a strategy probe until it names a worker, with the last probes that a node's cache would
// still have.
func (a *adapting) ask(strategy placement.Strategy, v *placement.View, s int) (int, error) {
	at := func(id string) int {
		return slices.IndexFunc(a.w.peers, func(p coordPeer) bool { return p.id == id })
	}
	c, probes, err := worlds.Decide(strategy, v, func(id string) time.Duration { return a.w.ping(a.rnd, at(id), s) })
	a.asked += probes
	return at(c.Worker), err
}
