package ipmicra

import (
	"bytes"
	"math"
	"os"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
	"github.com/apoidea/apoidea/node/lab/internet"
)

func value(t *testing.T, table report.Table, row, metric string) float64 {
	t.Helper()
	v, ok := table.Find(row, metric)
	if !ok {
		t.Fatalf("%s of %s is missing", metric, row)
	}
	return v
}

func TestIPMicraIsTheSameForASeed(t *testing.T) {
	trialtest.Unraced(t)
	o := trialtest.Clusters(t, 60)
	for _, e := range []*trial.Experiment{&Probes, &Download, &Load} {
		t.Run(e.Name, func(t *testing.T) {
			_, first := trialtest.Run(t, e, o)
			_, second := trialtest.Run(t, e, o)
			other := o
			other.Seed = 2
			_, third := trialtest.Run(t, e, other)
			for file, data := range first {
				if file != "run.json" && !bytes.Equal(data, second[file]) {
					t.Errorf("%s is another the second time", file)
				}
			}
			if bytes.Equal(first["table.json"], third["table.json"]) {
				t.Error("another seed gave the same table")
			}
		})
	}
}

// TestIPMicraWhereRangesTell checks that with ranges as places, probed sites cost few probes and
// get a near worker.
func TestIPMicraWhereRangesTell(t *testing.T) {
	trialtest.Unraced(t)
	o := trialtest.Clusters(t, 240)
	table, _ := trialtest.Run(t, &Probes, o)
	if got := value(t, table, "sites", "in_a_registered_range"); got != 100 {
		t.Errorf("%v %% of the sites are in a registered range", got)
	}
	if got := value(t, table, "sites", "judged_and_trained"); got != 228 {
		t.Errorf("%v sites, want all nodes that are no crawler", got)
	}
	// A worker of the site's own place is under 50 ms, and it is the first that is asked once the
	// place is known.
	if got := value(t, table, "ipmicra-50", "probes_per_site"); got > 1.05 {
		t.Errorf("%v probes per site", got)
	}
	if ours, blind := value(t, table, "ipmicra-50", "excess_of_others"), value(t, table, "random", "excess_of_others"); ours > 10 || blind < 50 {
		t.Errorf("sites that are not optimal are %v ms off, drawn at random %v ms", ours, blind)
	}

	o.Prefixes, o.Hierarchy = "", ""
	table, _ = trialtest.Run(t, &Probes, o)
	if got := value(t, table, "sites", "with_address"); got != 0 {
		t.Errorf("%v %% of the sites have an address", got)
	}
	if got := value(t, table, "ipmicra-50", "probes_per_site"); got < 2 {
		t.Errorf("%v probes per site without positions", got)
	}
}

func TestIPMicraDownloads(t *testing.T) {
	trialtest.Unraced(t)
	table, _ := trialtest.Run(t, &Download, trialtest.Clusters(t, 240))
	order := []string{"oracle", "brute-force", "random", "worst"}
	for i, row := range order[1:] {
		if better, worse := value(t, table, order[i], "download_mean"), value(t, table, row, "download_mean"); better >= worse {
			t.Errorf("%s takes %v ms, %s %v", order[i], better, row, worse)
		}
	}
	if got := value(t, table, "brute-force", "probes_per_site"); got != downloadCrawlers {
		t.Errorf("brute force costs %v probes", got)
	}
	if got := value(t, table, "smallest-probe", "connect_is_fastest_in_the_mean"); got != 100 {
		t.Errorf("the nearest crawler is the fastest in the mean at %v %% of the sites", got)
	}
}

// TestIPMicraLoad checks that overloaded crawlers are relieved by each rule, and that changed
// ranges cost fewer probes with the previous tree than without.
func TestIPMicraLoad(t *testing.T) {
	trialtest.Unraced(t)
	table, _ := trialtest.Run(t, &Load, trialtest.Clusters(t, 240))
	for _, rule := range []string{"-least-variance", "-random", "-largest", "-least-variance-scattered", "-least-variance-scattered-all-probed"} {
		if over, moved, left := value(t, table, "relieve"+rule, "overloaded"), value(t, table, "relieve"+rule, "moved"), value(t, table, "relieve"+rule, "left_over"); over == 0 || moved == 0 || left > 1 {
			t.Errorf("%s: %v crawlers gave up %v subnets, and %v %% of the pages are too much still", rule, over, moved, left)
		}
	}
	if got := value(t, table, "relieve-least-variance-scattered-all-probed", "optimal"); got != 100 {
		t.Errorf("%v %% of the subnets that all probed went to the best other", got)
	}
	for _, kind := range []string{"split", "gone", "new"} {
		if got := value(t, table, "changed", kind); got < 12 || got > 36 {
			t.Errorf("%v of 240 ranges are %s", got, kind)
		}
	}
	table, _ = trialtest.Run(t, &Load, trialtest.Clusters(t, 60)) // several sites a range
	known, lost := value(t, table, "rebuild-rebuild", "probes_in_changed"), value(t, table, "rebuild-restart", "probes_in_changed")
	if known >= lost {
		t.Errorf("%v probes in ranges that changed where the tree before is known, %v where it is not", known, lost)
	}
}

func TestFarApart(t *testing.T) {
	o := trialtest.Clusters(t, 30)
	net, err := internet.Load(internet.Options{RTT: o.RTT})
	if err != nil {
		t.Fatal(err)
	}
	places := make(map[int]bool)
	for _, host := range farApart(net, []int{0, 3, 6, 9, 12, 1, 2, 15}, 3) {
		places[host%3] = true
	}
	if len(places) != 3 {
		t.Errorf("crawlers at the places %v, want one at each", places)
	}
}

func TestLineThroughValues(t *testing.T) {
	if at, slope := line([]float64{3, 5, 7, 9}); math.Abs(at-3) > 1e-9 || math.Abs(slope-2) > 1e-9 {
		t.Errorf("height %v, slope %v", at, slope)
	}
}

// TestIPMicraOnSharedData nests real registry ranges.
func TestIPMicraOnSharedData(t *testing.T) {
	const path = "../../../../../shared/data/rir/ip-hierarchy-a.csv.gz"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no ../shared/data here")
	}
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
	o := trialtest.Clusters(t, 3)
	net, err := internet.Load(internet.Options{RTT: o.RTT, Hierarchy: path})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := ipmicra.Build(net.Hierarchy())
	if err != nil {
		t.Fatal(err)
	}
	if tree.Size() != 431_651 {
		t.Errorf("%d ranges", tree.Size())
	}
	s := ipmicra.New(tree, 50*time.Millisecond)
	if subnet, worker := s.Worker(net.Hierarchy()[1000].Prefix.Addr()); !subnet.IsValid() || worker != "" {
		t.Errorf("subnet %v, worker %q", subnet, worker)
	}
}
