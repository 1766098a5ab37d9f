package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/crawl/placement/ipmicra"
	"github.com/apoidea/apoidea/node/lab/internet"
)

// clusters writes a matrix of nodes in three places, near within and far between, with the prefixes of the nodes and the registry's ranges: one for each place, of
// one organisation each.
func clusters(t *testing.T, nodes int) Options {
	t.Helper()
	dir := t.TempDir()
	o := Options{Seed: 1, Quick: true}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var matrix, prefixes, hierarchy strings.Builder
	prefixes.WriteString("node,prefix\n")
	hierarchy.WriteString("prefix,org\n")
	for i := range nodes {
		var row []string
		for j := range nodes {
			ms := 5 + float64((i*31+j*31+i*j)%10)
			switch {
			case i == j:
				ms = 0
			case i%3 != j%3:
				ms += 70 + 20*float64(i%3+j%3)
			}
			row = append(row, fmt.Sprint(ms))
		}
		matrix.WriteString(strings.Join(row, ",") + "\n")
		fmt.Fprintf(&prefixes, "%d,%d.%d.%d.0/24\n", i, 20+i%3, i/256, i%256)
		fmt.Fprintf(&hierarchy, "%d.%d.%d.0/24,site %d\n", 20+i%3, i/256, i%256, i)
	}
	for place := range 3 {
		fmt.Fprintf(&hierarchy, "%d.0.0.0/8,place %d\n", 20+place, place)
	}
	o.RTT, o.Prefixes, o.Hierarchy = write("rtt.csv", matrix.String()), write("prefixes.csv", prefixes.String()), write("hierarchy.csv", hierarchy.String())
	return o
}

func run(t *testing.T, name string, o Options) (Table, map[string][]byte) {
	t.Helper()
	e, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	r, err := Run(t.Context(), e, o, dir, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	return r.Table, contents(t, dir)
}

func value(t *testing.T, table Table, row, metric string) float64 {
	t.Helper()
	v, ok := table.Find(row, metric)
	if !ok {
		t.Fatalf("%s of %s is missing", metric, row)
	}
	return v
}

func TestIPMicraIsTheSameForASeed(t *testing.T) {
	unraced(t)
	o := clusters(t, 60)
	for _, name := range []string{"ipmicra-probes", "ipmicra-download"} {
		t.Run(name, func(t *testing.T) {
			_, first := run(t, name, o)
			_, second := run(t, name, o)
			other := o
			other.Seed = 2
			_, third := run(t, name, other)
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

// TestIPMicraWhereRangesTell: where ranges are places, a site that has to be probed costs few probes and goes to somebody near.
func TestIPMicraWhereRangesTell(t *testing.T) {
	unraced(t)
	o := clusters(t, 240)
	table, _ := run(t, "ipmicra-probes", o)
	if got := value(t, table, "sites", "in_a_registered_range"); got != 100 {
		t.Errorf("%v %% of the sites are in a registered range", got)
	}
	if got := value(t, table, "sites", "judged_and_trained"); got != 228 {
		t.Errorf("%v sites, want all nodes that are no crawler", got)
	}
	// A worker of the site's own place is under 50 ms, and it is the first that is asked once the place is known.
	if got := value(t, table, "ipmicra-50", "probes_per_site"); got > 1.05 {
		t.Errorf("%v probes a site", got)
	}
	if ours, blind := value(t, table, "ipmicra-50", "excess_of_others"), value(t, table, "random", "excess_of_others"); ours > 10 || blind < 50 {
		t.Errorf("sites that are not optimal are %v ms off, drawn at random %v ms", ours, blind)
	}

	o.Prefixes, o.Hierarchy = "", ""
	table, _ = run(t, "ipmicra-probes", o)
	if got := value(t, table, "sites", "with_address"); got != 0 {
		t.Errorf("%v %% of the sites have an address", got)
	}
	if got := value(t, table, "ipmicra-50", "probes_per_site"); got < 2 {
		t.Errorf("%v probes a site although nothing is known of where they are", got)
	}
}

func TestIPMicraDownloads(t *testing.T) {
	unraced(t)
	table, _ := run(t, "ipmicra-download", clusters(t, 240))
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

func TestMatricesTooSmall(t *testing.T) {
	for _, name := range []string{"ipmicra-probes", "ipmicra-download", "placement", "coordinates-strategies", "coordinates-overhead"} {
		e, err := Find(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, nodes := range []int{1, 4} {
			if _, err := Run(t.Context(), e, clusters(t, nodes), t.TempDir(), "", nil); !errors.Is(err, ErrOptions) {
				t.Errorf("%s, %d nodes: error %v", name, nodes, err)
			}
		}
	}
}

func TestDrawHostsOfAMatrix(t *testing.T) {
	for nodes, want := range map[int]int{30: downloadSites, 240: 228} {
		o := clusters(t, nodes)
		net, err := internet.Load(internet.Options{Seed: 1, RTT: o.RTT, Prefixes: o.Prefixes, Fill: true})
		if err != nil {
			t.Fatal(err)
		}
		p, s, err := drawHosts(net, rand.New(rand.NewPCG(1, 2)), 12, downloadSites)
		if err != nil || len(p) != 12 || len(s) != want {
			t.Fatalf("%d nodes: %d crawlers and %d sites, %v", nodes, len(p), len(s), err)
		}
		seen := make(map[int]bool)
		at := newAddresses(&o, net)
		for _, host := range s {
			if seen[host] || slices.Contains(p, host%nodes) {
				t.Fatalf("%d nodes: host %d is drawn twice, or stands with a crawler", nodes, host)
			}
			seen[host] = true
			if a, err := at.of(host); err != nil || int(a.As4()[2]) != host%nodes {
				t.Fatalf("host %d has the address %v, %v", host, a, err)
			}
		}
	}
}

func TestFarApart(t *testing.T) {
	o := clusters(t, 30)
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

// TestIPMicraOnSharedData nests the ranges that registries really have.
func TestIPMicraOnSharedData(t *testing.T) {
	const path = "../../../../shared/data/rir/ip-hierarchy-a.csv.gz"
	if _, err := os.Stat(path); err != nil {
		t.Skip("no ../shared/data here")
	}
	if testing.Short() {
		t.Skip("takes a second")
	}
	o := clusters(t, 3)
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
