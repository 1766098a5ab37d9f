package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
	"github.com/apoidea/apoidea/node/lab/experiment/trial/trialtest"
)

// written returns a directory with one trace.
func written(t *testing.T, rows string) string {
	t.Helper()
	dir := t.TempDir()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(rows)); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), os.WriteFile(filepath.Join(dir, "tiny.csv.gz"), b.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestTinyTrace has a page that changes every ten days among three that never do.
func TestTinyTrace(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("page,host,unix_s\n")
	for i := range 4 {
		fmt.Fprintf(&rows, "p%d,h%d,%d\n", i, i, 1000*day)
	}
	for n := 1; n <= 40; n++ {
		fmt.Fprintf(&rows, "p0,h0,%d\n", (1000+10*n)*day)
	}
	o := trial.Options{Seed: 1, Quick: true, Peers: 3, Every: 20, Traces: written(t, rows.String())}
	table, files := trialtest.Run(t, &experiment, o)
	for row, want := range map[string][2]float64{
		"tiny-uniform": {0.79, 0.84}, "tiny-oracle": {0.93, 0.97}, "tiny-proportional": {0.93, 0.97}, // (3 + 1/4)/4, (3 + 4/5)/4
		"tiny-bayes": {0.84, 0.97}, "tiny-bayes-8-peers": {0.84, 0.97}, "tiny-bayes-3-peers": {0.84, 0.97}, "tiny-nutch": {0.5, 0.97},
	} {
		if got, ok := table.Find(row, "freshness"); !ok || got < want[0] || got > want[1] {
			t.Errorf("%s: freshness %v, want within %v", row, got, want)
		}
		if got, _ := table.Find(row, "visits"); math.Abs(got-1) > 0.1 {
			t.Errorf("%s: visits %v of the budget", row, got)
		}
	}
	for _, name := range []string{"stale.svg", "gap.svg"} {
		if len(files[name]) == 0 {
			t.Errorf("no %s: %v", name, slices.Collect(maps.Keys(files)))
		}
	}
	if _, again := trialtest.Run(t, &experiment, o); !bytes.Equal(files["table.csv"], again["table.csv"]) {
		t.Error("the same seed gives another table")
	}
}

func TestSyntheticTrace(t *testing.T) {
	tr := synthetic(&trial.Options{Seed: 1})
	w := newWorld(tr, (&trial.Options{Seed: 1}).Rand(1), false)
	// A uniform visit after I days: 2 (sqrt(1+y)-1)/y with y = I times the scale of 0.2.
	if got, want := uniform(w)[freshness], 2/(1+math.Sqrt(1+14*0.2)); math.Abs(got-want) > 0.025 {
		t.Errorf("uniform: %v, want %v", got, want)
	}
}

// TestBadTraces: errors have the file and, where there is one, the line.
func TestBadTraces(t *testing.T) {
	const head, first = "page,host,unix_s\n", "a,h,86400\n"
	for rows, want := range map[string]string{
		"":                                  "line 1",
		"page,host\na,h\n":                  `missing column "unix_s"`,
		head:                                "no pages",
		head + first:                        "0 days between",
		head + first + "a,h\n":              "line 3",
		head + first + "a,h,soon\n":         `line 3, column unix_s: "soon"`,
		head + first + "a,h,-5\n":           "line 3, column unix_s",
		head + first + "a,h,99999999999\n":  "line 3, column unix_s",
		head + first + "a,h,1\n":            "line 3, column unix_s",
		head + first + ",h,90000\n":         "line 3, column page",
		head + first + "b,,90000\n":         "line 3, column page",
		head + first + "a,h,1999999999\n":   "days between",
		head + strings.Repeat("a,h,1\n", 2): "0 days between",
		head + "x,y,9\n" + many(maxPages+1, "%d,h,1\n"): "pages, at most",
	} {
		_, err := trial.Run(t.Context(), &experiment, trial.Options{Traces: written(t, rows)}, t.TempDir(), report.Run{}, nil)
		if !errors.Is(err, trial.ErrOptions) || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "tiny.csv.gz") {
			t.Errorf("%.60q: error %v, want %q and the file", rows, err, want)
		}
	}
	_, err := trial.Run(t.Context(), &experiment, trial.Options{Traces: t.TempDir()}, t.TempDir(), report.Run{}, nil)
	if !errors.Is(err, trial.ErrOptions) || !strings.Contains(err.Error(), "no files") {
		t.Errorf("empty directory: error %v", err)
	}
}

func many(n int, row string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, row, i)
	}
	return b.String()
}

// TestMeasuredTraces checks shares of the gap, budgets and rings on the histories that are kept
// beside the repository. Slow: four seconds for fifty virtual years.
func TestMeasuredTraces(t *testing.T) {
	const dir = "../../../../../shared/data/changes"
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no ../shared/data/changes")
	}
	o := trial.Options{Seed: 1, Traces: dir}
	all, err := traces(&o)
	if err != nil {
		t.Fatal(err)
	}
	within := func(name string, got, low, high float64) {
		t.Helper()
		if !(low <= got && got <= high) {
			t.Errorf("%s: %v, want %v to %v", name, got, low, high)
		}
	}
	for _, tr := range all {
		for kind, important := range map[string]bool{"": false, " with importance": true} {
			if important && tr.name == "peps" {
				continue
			}
			var w *world
			var one result
			var above, shares []float64
			for draw := range uint64(3) {
				w = newWorld(tr, o.Rand(draw), important)
				equal, best := uniform(w)[freshness], oracle(w)[freshness]
				one = bayes(t.Context(), w, 1, true)
				above, shares = append(above, one[freshness]-equal), append(shares, (one[freshness]-equal)/(best-equal))
			}
			closed := report.Median(shares)
			switch {
			case tr.name == "peps":
				within("PEPs above uniform", report.Median(above), -0.023, 1) // goal missed: -0.005
			case important:
				within("gap closed with importance", closed, 0.78, 1)
			default:
				within("gap closed", closed, 0.57, 1) // goal: 0.60, of the median of ten draws
			}
			for _, n := range []int{8, 100} {
				if important || n > 8 && tr.name == "peps" {
					continue
				}
				ring := bayes(t.Context(), w, n, true)
				within(fmt.Sprint(tr.name, kind, ": ", n, " peers against one"), ring[freshness]-one[freshness], -0.003, 0.006) // goal: 0.003, of the median of ten draws
				within(fmt.Sprint(tr.name, kind, ": visits of ", n, " peers"), ring[visits], 0.99, 1.01)
			}
		}
	}
}
