package internet

import (
	"bufio"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/apoidea/apoidea/crawl/placement/registry"
)

// measured is the folder of real measurements, beside the repository; tests on them are skipped
// where it is not.
func measured(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join("..", "..", "..", "..", "shared", "data", name)
	if _, err := os.Stat(path); err != nil {
		t.Skip("no real measurements: ", err)
	}
	return path
}

func TestRealMatricesHaveTheFiguresOfTheirSource(t *testing.T) {
	for name, want := range map[string]struct {
		Stats
		triangles
	}{
		"rtt/planetlab-490.csv.gz": {Stats{490, 0, 30.9, 133.9, 290.8}, triangles{0.170, 0.055, 0.791}},
		"rtt/aws-21.csv.gz":        {Stats{21, 0, 39.6, 154.7, 259.5}, triangles{0.070, 0.009, 0.176}},
	} {
		n, err := Load(Options{RTT: measured(t, name)})
		if err != nil {
			t.Fatal(err)
		}
		st, tri := n.Stats(), n.triangles()
		near := func(a, b, within float64) bool { return math.Abs(a-b) <= within }
		if st.Hosts != want.Hosts || st.Missing != 0 || !near(st.Median, want.Median, 1) || !near(st.P90, want.P90, 1) ||
			!near(tri.Violations, want.Violations, 0.002) || !near(tri.Violations10, want.Violations10, 0.001) || !near(tri.Detours, want.Detours, 0.002) {
			t.Errorf("%s: %+v, %+v, want %+v", name, st, tri, want)
		}
	}
}

func TestRealAddresses(t *testing.T) {
	o := Options{Seed: 1, RTT: measured(t, "rtt/aws-21.csv.gz"), Prefixes: measured(t, "rtt/aws-21-prefixes.csv.gz")}
	n, err := Load(o)
	if err != nil {
		t.Fatal(err)
	}
	of := make([][]netip.Prefix, n.Size())
	err = registry.Read(o.Prefixes, func(in *bufio.Reader) error {
		rows, err := readPrefixes(in, n.Size())
		for _, r := range rows {
			of[r.node] = append(of[r.node], r.prefix)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, prefixes := range of {
		if a := n.Addr(i); !slices.ContainsFunc(prefixes, func(p netip.Prefix) bool { return p.Contains(a) }) {
			t.Errorf("node %d is at %v, in none of its %d prefixes", i, a, len(prefixes))
		}
	}
	if len(n.Hierarchy()) != 0 {
		t.Error("a hierarchy that nobody gave")
	}
}
