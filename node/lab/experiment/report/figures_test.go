package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestFigures(t *testing.T) {
	values := []float64{1, 2, 3, 6}
	for name, row := range map[string]struct{ got, want float64 }{
		"sum":                     {Sum(values), 12},
		"mean":                    {Mean(values), 3},
		"deviation":               {Deviation(values), math.Sqrt(3.5)},
		"spread":                  {Spread(values), 2},
		"median":                  {Quantile(values, 0.5), 3},
		"greatest":                {Quantile(values, 1), 6},
		"quantile of nothing":     {Quantile(nil, 0.5), 0},
		"sum of nothing":          {Sum(nil), 0},
		"deviation of equal ones": {Deviation([]float64{4, 4}), 0},
	} {
		if row.got != row.want {
			t.Errorf("%s: %v, want %v", name, row.got, row.want)
		}
	}
	if !math.IsNaN(Mean(nil)) || !math.IsNaN(Spread([]float64{0, 0})) {
		t.Error("nothing has a mean")
	}
	if got := Ascending([]int{3, 1, 2}); !slices.Equal(got, []float64{1, 2, 3}) {
		t.Errorf("ascending %v", got)
	}
	if l := Percentiles("times", 2, func(percent int) float64 { return 10 * float64(percent) }); !slices.Equal(l.X, []float64{10, 20}) || !slices.Equal(l.Y, []float64{1, 2}) {
		t.Errorf("percentiles %+v", l)
	}
}

func TestBrief(t *testing.T) {
	var none, some, many Table
	for i := range 4 {
		none.Add("a", fmt.Sprint("metric", i), "s", 1)
	}
	if got := none.Brief(); got != "0 figures of papers: 0 reached, 0 missed, 0 not comparable\na: metric0 1 s; metric1 1 s; metric2 1 s\n" {
		t.Errorf("without a paper:\n%s", got)
	}
	some.Add("a", "other", "", 1)
	some.Compare("a", "near", "s", 100, 90)
	some.Compare("a", "far", "s", 100, 89.9)
	some.Compare("b", "unknown", "s", 100, math.NaN())
	if got := some.Brief(); got != "3 figures of papers: 1 reached, 1 missed, 1 not comparable\na: near 90 s (paper 100: reached); far 89.900 s (paper 100: missed)\nb: unknown - s (paper 100: not comparable)\n" {
		t.Errorf("with a paper:\n%s", got)
	}
	for i := range 20 {
		many.Compare(fmt.Sprint("row", i), "m", "", 1, 1)
	}
	if got := many.Brief(); strings.Count(got, "\n") != 10 || !strings.Contains(got, "20 reached") || !strings.Contains(got, "9 of 20 rows") {
		t.Errorf("of many:\n%s", got)
	}
}

func TestVerdictWithinTolerance(t *testing.T) {
	var table Table
	for _, tt := range []struct {
		tolerance float64
		want      Verdict
	}{{0.25, Reached}, {0.1, Missed}, {-1, NotComparable}} {
		table.Compare("a", "m", "", 10, 12)
		table.Within(tt.tolerance)
		if got := table[len(table)-1].Verdict; got != tt.want {
			t.Errorf("tolerance %v: %s, want %s", tt.tolerance, got, tt.want)
		}
	}
	table.Add("a", "m", "", 1)
	table.Within(0.5)
	if got := table[len(table)-1].Verdict; got != "" {
		t.Errorf("without a paper: %s", got)
	}
}

func TestDrawnHasMedianAndInterval(t *testing.T) {
	var table Table
	table.Drawn("a", "m", "", 2, []float64{4, 0, math.NaN(), 2, 1, 3})
	if r := table[0]; *r.Here != 2 || *r.Low != 0.2 || *r.High != 3.8 || r.Verdict != Reached {
		t.Errorf("%v, %v to %v, %s", *r.Here, *r.Low, *r.High, r.Verdict)
	}
	table.Drawn("a", "one", "", math.NaN(), []float64{7})
	table.Drawn("a", "none", "", 2, nil)
	table.Drawn("a", "never", "", math.NaN(), []float64{math.Inf(1), 1, 1})
	if one, none, never := table[1], table[2], table[3]; *one.Here != 7 || one.Low != nil || none.Here != nil || none.Verdict != NotComparable || *never.Here != 1 || *never.Low != 1 || never.High != nil {
		t.Errorf("%v, %v, %v", one, none, never)
	}
}

func TestSeries(t *testing.T) {
	s := NewSeries("load", "minutes", []float64{0, 1})
	s.Column("pages", []float64{5, 7})
	if got, err := s.CSV(); err != nil || string(got) != "minutes,pages\n0,5\n1,7\n" {
		t.Errorf("%q, %v", got, err)
	}
	if l := s.Line("pages", 1); !slices.Equal(l.X, []float64{0, 1}) || !slices.Equal(l.Y, []float64{5, 7}) {
		t.Errorf("line %+v", l)
	}
}

func TestSeriesPrintsNamesOfRows(t *testing.T) {
	s := Series{Name: "cases", Columns: []string{"case", "pages"}, Names: []string{"rtt", "a, b"}, Rows: [][]float64{{1, 5}, {0, 7}}}
	if got, err := s.CSV(); err != nil || string(got) != "case,pages\n\"a, b\",5\nrtt,7\n" {
		t.Errorf("%q, %v", got, err)
	}
}
