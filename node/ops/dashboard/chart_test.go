package dashboard

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

// TestCurve: a curve is drawn in pieces where a part is not known, a moment alone as a short
// stroke, and nothing where nothing is known.
func TestCurve(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		name   string
		values []float64
		want   string
	}{
		{"whole", []float64{0, 2, 1, 1}, "M115 130l115 -116l115 58l115 0"},
		{"pieces", []float64{nan, 0, 2, nan, nan, 1, 1, nan}, "M115 130l57.5 -116;M345 72l57.5 0"},
		{"alone", []float64{nan, 1, nan, nan}, "M230 72H172.5"},
		{"unknown", []float64{nan, nan}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := new(bytes.Buffer)
			(&curve{class: "c", values: c.values}).draw(d, 2)
			var got []string
			for piece := range strings.SplitSeq(d.String(), "/>") {
				if _, line, ok := strings.Cut(piece, ` d="`); ok {
					got = append(got, strings.TrimSuffix(line, `"`))
				}
			}
			if strings.Join(got, ";") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
