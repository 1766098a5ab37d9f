package experiment

import (
	"math"
	"slices"
	"testing"
)

func TestFigures(t *testing.T) {
	values := []float64{1, 2, 3, 6}
	for name, row := range map[string]struct{ got, want float64 }{
		"sum":                     {sum(values), 12},
		"mean":                    {mean(values), 3},
		"deviation":               {deviation(values), math.Sqrt(3.5)},
		"spread":                  {spread(values), 2},
		"median":                  {quantile(values, 0.5), 3},
		"greatest":                {quantile(values, 1), 6},
		"quantile of nothing":     {quantile(nil, 0.5), 0},
		"sum of nothing":          {sum(nil), 0},
		"deviation of equal ones": {deviation([]float64{4, 4}), 0},
	} {
		if row.got != row.want {
			t.Errorf("%s: %v, want %v", name, row.got, row.want)
		}
	}
	if !math.IsNaN(mean(nil)) || !math.IsNaN(spread([]float64{0, 0})) {
		t.Error("nothing has a mean")
	}
	if l := ranked("peers", values); !slices.Equal(l.X, []float64{25, 50, 75, 100}) || !slices.Equal(l.Y, values) {
		t.Errorf("ranked %+v", l)
	}
	if l := percentiles("times", 2, func(percent int) float64 { return 10 * float64(percent) }); !slices.Equal(l.X, []float64{10, 20}) || !slices.Equal(l.Y, []float64{1, 2}) {
		t.Errorf("percentiles %+v", l)
	}
}

func TestSeries(t *testing.T) {
	s := newSeries("load", "minutes", []float64{0, 1})
	s.column("pages", []float64{5, 7})
	if got, err := s.CSV(); err != nil || string(got) != "minutes,pages\n0,5\n1,7\n" {
		t.Errorf("%q, %v", got, err)
	}
	if l := s.line("pages", 1); !slices.Equal(l.X, []float64{0, 1}) || !slices.Equal(l.Y, []float64{5, 7}) {
		t.Errorf("line %+v", l)
	}
}
