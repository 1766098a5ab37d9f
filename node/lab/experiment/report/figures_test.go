package report

import (
	"fmt"
	"math"
	"slices"
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
	if l := Ranked("peers", values); !slices.Equal(l.X, []float64{25, 50, 75, 100}) || !slices.Equal(l.Y, values) {
		t.Errorf("ranked %+v", l)
	}
	if l := Percentiles("times", 2, func(percent int) float64 { return 10 * float64(percent) }); !slices.Equal(l.X, []float64{10, 20}) || !slices.Equal(l.Y, []float64{1, 2}) {
		t.Errorf("percentiles %+v", l)
	}
}

func TestBriefTable(t *testing.T) {
	var short, long Table
	short.Add("a", "m", "", 1)
	for row := range 10 {
		for metric := range 10 {
			paper := math.NaN()
			if row == 3 && metric == 7 {
				paper = 5
			}
			long.Compare(fmt.Sprint("row", row), fmt.Sprint("metric", metric), "", paper, 1)
		}
	}
	if got := short.Brief(); len(got) != 1 {
		t.Errorf("%d figures of 1", len(got))
	}
	got := long.Brief()
	if len(got) != 31 || got[9].Metric != "metric0" || got[12].Metric != "metric7" {
		t.Errorf("%d figures: %v", len(got), got)
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
