package placement

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
	"github.com/apoidea/apoidea/node/lab/experiment/worlds"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// smallPlacements runs all rows on a small synthetic world.
func smallPlacements(t *testing.T, seed uint64, peers int) (*placementWorld, []placementRuns) {
	t.Helper()
	o := &trial.Options{Seed: seed}
	net := internet.Synthetic(seed)
	tree, err := ipmicra.Build(net.Hierarchy())
	if err != nil {
		t.Fatal(err)
	}
	setup := &placementSetup{peers: peers, sites: 160, pages: 10, span: 10 * time.Minute}
	worlds, err := placementWorlds(o, net, tree, setup, 1)
	if err != nil {
		t.Fatal(err)
	}
	runs, err := runPlacements(t.Context(), worlds, func(string, float64) {})
	if err != nil {
		t.Fatal(err)
	}
	return worlds[0], runs
}

func TestPlacementRows(t *testing.T) {
	w, runs := smallPlacements(t, 1, 6)
	r := new(report.Report)
	placementTable(r, runs)
	placementPlots(r, runs)
	get := func(row, metric string) float64 {
		v, ok := r.Table.Find(row, metric)
		if !ok {
			t.Errorf("%s of %s is missing", metric, row)
		}
		return v
	}
	get("adaptive-alone", "optimal")
	names := []string{"rtt", "ipmicra", "coordinates", "geo", "random", "worst", "owner", "adaptive", "adaptive-blind", worlds.Oracle}
	for _, name := range names {
		for _, metric := range []string{
			"optimal", "probes_per_site", "download_p50_ms", "download_p90_ms", "messages_per_page", "bytes_per_page", "balance", "coverage", "overlap", "communication",
		} {
			get(name, metric)
			get(name+"-all", metric)
		}
		if get(name, "overlap") != 0 {
			t.Errorf("%s: a page was fetched twice", name)
		}
		if get(worlds.Oracle, "download_p50_ms") > get(name, "download_p50_ms")+1 {
			t.Errorf("%s downloads faster than the oracle", name)
		}
	}
	if get(worlds.Oracle, "optimal") != 1 || get("rtt", "probes_per_site") != 6 || get("random", "probes_per_site") != 0 || get("owner", "messages_per_page") != 0 {
		t.Error("baselines are not what they are by definition")
	}
	if get("worst", "download_p50_ms") <= get("random", "download_p50_ms") {
		t.Error("the worst is no worse than a random one")
	}
	for i := range runs {
		if got := report.Sum(runs[i].runs[0].loads()); got != float64(w.pages()) {
			t.Errorf("%s: %v pages were fetched of %d", runs[i].row.name, got, w.pages())
		}
	}
	for i := range r.Plots {
		if bytes.Contains(r.Plots[i].SVG(), []byte("NaN")) {
			t.Errorf("%s has a number that is none", r.Plots[i].Name)
		}
	}
	_, again := smallPlacements(t, 1, 6)
	second := new(report.Report)
	placementTable(second, again)
	a, _ := r.Table.JSON()
	b, _ := second.Table.JSON()
	if !bytes.Equal(a, b) {
		t.Error("the same seed gave another table")
	}
}

// TestPlacementCandidates checks the candidates: the leaf set live, all peers in the papers, and
// only peers that reach the site.
func TestPlacementCandidates(t *testing.T) {
	trialtest.Unraced(t)
	net := internet.Synthetic(3)
	tree, err := ipmicra.Build(net.Hierarchy())
	if err != nil {
		t.Fatal(err)
	}
	setup := &placementSetup{peers: 30, sites: 20, pages: 10, span: time.Minute}
	w, err := newPlacementWorld(net, tree, worlds.NewAddresses(&trial.Options{Seed: 3}, net), rand.New(rand.NewPCG(3, 3)), setup)
	if err != nil {
		t.Fatal(err)
	}
	for i := range w.sites {
		s := &w.sites[i]
		if n := len(w.candidates(s, false)); n != 2*leafSide+1 {
			t.Errorf("%d candidates in a leaf set", n)
		}
		all := w.candidates(s, true)
		if len(all) != 30 || all[0] != s.owner {
			t.Errorf("%d candidates of 30, the first is %d and the owner %d", len(all), all[0], s.owner)
		}
		s.rtt[s.owner] = -1
		if slices.Contains(w.candidates(s, true), s.owner) {
			t.Error("one that cannot reach the site is a candidate")
		}
	}
	owned := make([]float64, 30)
	for i := range 3000 {
		owned[w.owner(string(rune('a'+i%26))+time.Duration(i).String(), w.inRing)]++
	}
	slices.Sort(owned)
	if most := report.Spread(owned); math.IsNaN(most) || most > 3.5 {
		t.Errorf("the busiest owner has %.1f times the mean", most)
	}
}

// TestHeldBackPlaces checks that judged sites never trained, and that a single place leaves none to
// judge.
func TestHeldBackPlaces(t *testing.T) {
	for nodes, judged := range map[int]bool{13: false, 14: true} {
		o := trialtest.Clusters(t, nodes)
		net, err := internet.Load(internet.Options{Seed: 1, RTT: o.RTT, Prefixes: o.Prefixes})
		if err != nil {
			t.Fatal(err)
		}
		tree, err := ipmicra.Build(net.Hierarchy())
		if err != nil {
			t.Fatal(err)
		}
		setup := &placementSetup{peers: 12, sites: 40, pages: 10, span: time.Minute}
		worlds, err := placementWorlds(&o, net, tree, setup, 1)
		if err != nil {
			t.Fatal(err)
		}
		rows := placementRows(worlds[0])
		row := &rows[slices.IndexFunc(rows, func(r placementRow) bool { return r.learns })]
		optimal, probes, err := heldBack(worlds[0], row)
		if err != nil || math.IsNaN(optimal) == judged || math.IsNaN(probes) == judged {
			t.Errorf("%d nodes: %v of the sites at their nearest, %v probes, %v", nodes, optimal, probes, err)
		}
	}
}

func TestPlacementOfAMatrixWithHoles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "holes.csv")
	const nodes = 40
	var rows []string
	for i := range nodes {
		row := slices.Repeat([]string{"NaN"}, nodes)
		if i == 0 {
			row[1] = "20" // the only round trip that was measured
		}
		rows = append(rows, strings.Join(row, ","))
	}
	if err := os.WriteFile(path, []byte(strings.Join(rows, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := trial.Run(t.Context(), &Strategies, trial.Options{RTT: path, Quick: true}, t.TempDir(), report.Run{}, nil); !errors.Is(err, trial.ErrOptions) {
		t.Errorf("error %v", err)
	}
}
