// Package trialtest runs experiments in tests.
package trialtest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// Clusters writes a matrix of nodes in three places, near within and far between, with prefixes and
// registry ranges: one per place, each of one organization.
func Clusters(t testing.TB, nodes int) trial.Options {
	t.Helper()
	dir := t.TempDir()
	o := trial.Options{Seed: 1, Quick: true}
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

// Run runs an experiment and returns its table and files.
func Run(t testing.TB, e *trial.Experiment, o trial.Options) (report.Table, map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	r, err := trial.Run(t.Context(), e, o, dir, report.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	Named(t, r)
	return r.Table, Contents(t, dir)
}

// Named checks that the rows of series of cases have names instead of numbers.
func Named(t testing.TB, r *report.Report) {
	t.Helper()
	for _, s := range r.Series {
		if slices.Contains([]string{"row", "case", "family"}, s.Columns[0]) && len(s.Names) == 0 {
			t.Errorf("%s.csv: rows without names", s.Name)
		}
	}
}

// Contents returns the files of a directory.
func Contents(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string][]byte)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		all[e.Name()] = data
	}
	return all
}

// Unraced skips a test under the race detector: it runs state machines on one goroutine in virtual
// time, would find no race, and would take ten times as long.
func Unraced(t testing.TB) {
	t.Helper()
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}
