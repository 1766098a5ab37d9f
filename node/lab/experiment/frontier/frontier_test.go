package frontier

import (
	"strings"
	"testing"

	"github.com/apoidea/apoidea/node/lab/experiment/report"
	"github.com/apoidea/apoidea/node/lab/experiment/trial"
)

// TestFrontier checks that every kind of record is measured, and that a replica's URL takes less on
// disk than its record is long.
func TestFrontier(t *testing.T) {
	r, err := trial.Run(t.Context(), &Frontier, trial.Options{Peers: 20_000, Seed: 1}, t.TempDir(), report.Run{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	value := make(map[string]float64)
	for _, row := range r.Table {
		if row.Metric == "value" {
			value[row.Row] = *row.Here
		}
		if disk := *row.Here; row.Metric == "disk" && strings.HasPrefix(row.Row, "replica") && (disk < 20 || disk >= value[row.Row]) {
			t.Errorf("%s takes %.0f bytes on the disk, its value has %.0f", row.Row, disk, value[row.Row])
		}
	}
	if len(value) != 7 {
		t.Errorf("weighed: %v", value)
	}
}
