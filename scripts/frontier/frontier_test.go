package main

import (
	"strings"
	"testing"
)

// TestSizes checks that every kind of record is measured, and that a replica's URL takes less on
// disk than its record is long.
func TestSizes(t *testing.T) {
	table, err := sizes(t.Context(), 20_000, 1)
	if err != nil {
		t.Fatal(err)
	}
	value := make(map[string]float64)
	for _, row := range table {
		if row.Metric == "value" {
			value[row.Row] = *row.Here
		}
		if disk := *row.Here; row.Metric == "disk" && strings.HasPrefix(row.Row, "replica") && value[row.Row] > 0 && (disk < 20 || disk >= value[row.Row]) {
			t.Errorf("%s takes %.0f bytes on the disk, its value has %.0f", row.Row, disk, value[row.Row])
		}
	}
	if len(value) != 10 {
		t.Errorf("weighed: %v", value)
	}
	for _, name := range []string{"schedule of a URL", "replica: schedule of a URL"} {
		if n, ok := table.Find(name, "disk"); !ok || n < 10 || n > 100 {
			t.Errorf("%s: %v bytes", name, n)
		}
	}
}
