package coordinates

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/coordinates"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// TestCoordinatesFindNearPeers runs a small set in virtual time, the basis of the thesis' figures.
func TestCoordinatesFindNearPeers(t *testing.T) {
	trialtest.Unraced(t)
	net := internet.Synthetic(1)
	scale := coordScale{sets: 1, peers: 6, hosts: 10}
	once, err := estimateSet(t.Context(), net, 3, scale, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	chosen, random := 0.0, 0.0
	for s, p := range once.chosen {
		if p == coordUnplanned {
			t.Fatalf("server %d is not placed", s)
		}
		chosen += once.world.expected(p, s)
		for q := range once.world.peers {
			random += once.world.expected(q, s) / float64(len(once.world.peers))
		}
	}
	if chosen > 0.9*random {
		t.Errorf("%.0f ms in the mean where placed, %.0f at random", chosen/60, random/60)
	}
	if once.beyond != 0 || once.batches != 6 || len(once.updates) != 60 {
		t.Errorf("%d requests beyond those due, %d batches of %d servers", once.beyond, once.batches, len(once.updates))
	}
	again, err := estimateSet(t.Context(), net, 3, scale, 0.2)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(once.chosen, again.chosen) || !slices.Equal(once.updates, again.updates) || once.messages != again.messages {
		t.Error("the same seed gives another run")
	}
}

func TestCoordWorldDrawsPeersOfDifferentSpeed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	w, err := newCoordWorld(internet.Synthetic(1), rnd, 40, 50)
	if err != nil {
		t.Fatal(err)
	}
	var waits []float64
	for i := range w.peers {
		waits = append(waits, w.peers[i].wait)
	}
	slices.Sort(waits)
	if waits[35] < 2*waits[20] {
		t.Errorf("busy peers wait %v ms, usual ones %v: want them apart", waits[35], waits[20])
	}
	for s := range w.servers {
		if serverOf(w.servers[s].addr) != s {
			t.Fatalf("the address of server %d is that of %d", s, serverOf(w.servers[s].addr))
		}
		if best := w.oracle(s); w.expected(best, s) > w.expected(s%40, s) {
			t.Fatalf("the oracle's choice for %d is not the best", s)
		}
	}
	sum := 0.0
	const n = 4000
	for range n {
		took, _ := w.download(rnd, 0, 0, usualPage)
		sum += took.Seconds() * 1000 / n
	}
	if want := w.expected(0, 0); sum < 0.8*want || sum > 1.25*want {
		t.Errorf("downloads take %.0f ms in the mean, %.0f expected", sum, want)
	}
}

func TestAfterWantsIt(t *testing.T) {
	tests := map[string]struct {
		holds string // by minute
		want  float64
	}{
		"at once":   {"+++++", 0},
		"later":     {"--+++", 2},
		"for good":  {"+-+-+++", 4},
		"too short": {"---++", math.Inf(1)},
		"never":     {"-----", math.Inf(1)},
	}
	for name, tt := range tests {
		if got := after(0, len(tt.holds), func(m int) bool { return tt.holds[m] == '+' }); got != tt.want {
			t.Errorf("%s: after %v minutes, want %v", name, got, tt.want)
		}
	}
}

// TestAssignmentsLeaveASlowPeer checks the reaction to a short disturbance by both ways.
func TestAssignmentsLeaveASlowPeer(t *testing.T) {
	trialtest.Unraced(t)
	for _, strategy := range []bool{false, true} {
		minutes := 62
		if strategy {
			minutes = 20
		}
		d := disturbance{
			name: "short", servers: 12, minutes: minutes, from: minutes / 2, to: minutes - 2, filter: coordinates.FilterConfig{Max: 8, Min: 2, Percentile: 0.2}, ours: true, strategy: strategy,
			strike: func(p *coordPeer) { p.stretch = 20 }, heal: func(p *coordPeer) { p.stretch = 1 },
		}
		trace, err := d.run(internet.Synthetic(1), 2)
		if err != nil {
			t.Fatal(err)
		}
		if before, later := trace.share[d.from-1], trace.share[d.to-1]; before < 0.2 || later > before/2 {
			t.Errorf("strategy %v: %.2f of the assignments before, %.2f while it is slow", strategy, before, later)
		}
		var r report.Report
		d.table(&r, []*adaptTrace{trace})
		if probes, ok := r.Table.Find("short", "probes_while"); ok != strategy || strategy && probes < 0.1 {
			t.Errorf("strategy %v: %v probes a server (there: %v) while it is slow", strategy, probes, ok)
		}
	}
}

// TestCrawlWaits checks that a peer fetches less while its batch is estimated.
func TestCrawlWaits(t *testing.T) {
	trialtest.Unraced(t)
	pages := make(map[string]float64)
	for _, row := range crawlRows() {
		c, err := newCoordCrawl(internet.Synthetic(1), 1, 3, row)
		if err != nil {
			t.Fatal(err)
		}
		c.run.clock.Run(30 * time.Minute)
		var r report.Report
		c.table(&r, false)
		pages[row.name], _ = r.Table.Find(row.name, "pages")
		if took, ok := r.Table.Find(row.name, "batch_took"); !ok || took < 60 {
			t.Errorf("%s: a batch took %v s", row.name, took)
		}
	}
	if pages["crawl-wait"] > 0.95*pages["crawl"] {
		t.Errorf("%v pages, want fewer when it waits", pages)
	}
}

func TestCoordCrawlFetchesOnce(t *testing.T) {
	trialtest.Unraced(t)
	crawl := func() *coordCrawl {
		c, err := newCoordCrawl(internet.Synthetic(1), 1, 3, crawlRow{name: "crawl", perURL: crawlPerURL})
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			c.run.clock.Run(time.Minute)
			c.note()
		}
		return c
	}
	c := crawl()
	for url, n := range c.fetched {
		if n > 1 {
			t.Errorf("%s is fetched %d times", url, n)
		}
	}
	var r report.Report
	c.table(&r, false)
	if pages, ok := r.Table.Find("crawl", "pages"); !ok || pages < 1000 {
		t.Errorf("%v pages in twenty minutes", pages)
	}
	if again := crawl(); !reflect.DeepEqual(c.done, again.done) || c.run.messages != again.run.messages {
		t.Error("the same seed gives another crawl")
	}
}
