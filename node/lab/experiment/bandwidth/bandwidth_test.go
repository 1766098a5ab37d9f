package bandwidth

import (
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// TestBandwidth holds what the experiment is to show: over the limiter ours uses the cap up and
// never exceeds it; alone it stays under it nearly always and keeps the order of scores; the
// paper's governor uses more with a deeper search and passes higher scores more often; the rival
// swings around the cap.
func TestBandwidth(t *testing.T) {
	r := new(report.Report)
	if err := Governors.Run(t.Context(), &trial.Options{Seed: 3, Quick: true}, r, func(string, float64) {}); err != nil {
		t.Fatal(err)
	}
	here := func(row, metric string) float64 {
		v, ok := r.Table.Find(row, metric)
		if !ok {
			t.Fatalf("no %s of %s", metric, row)
		}
		return v
	}
	for _, tt := range []struct {
		row, metric string
		least, most float64
	}{
		{"ours", "use", 0.95, 1.0001},
		{"ours", "windows_above", 0, 0},
		{"ours", "order_violations", 0, 0},
		{"ours-alone", "use", 0.75, 1},
		{"ours-alone", "windows_above_cap", 0, 0.05},
		{"ours-alone", "order_violations", 0, 0},
		{"paper-2", "use", 0.1, 0.95},
		{"paper-6", "order_violations", here("paper-2", "order_violations"), 1},
		{"paper-6", "use", here("paper-2", "use"), 1.1},
		{"start-stop", "use", 0.9, 1.2},
		{"start-stop", "windows_above", 0.2, 0.8},
		{"paper-6-limiter", "windows_above", 0, 0},
	} {
		if got := here(tt.row, tt.metric); got < tt.least || got > tt.most {
			t.Errorf("%s: %s %v, want %v to %v", tt.row, tt.metric, got, tt.least, tt.most)
		}
	}
	if len(r.Plots) != 4 {
		t.Errorf("%d charts", len(r.Plots))
	}
}
