package main

import "testing"

// TestSteps checks that all URLs are visited again, and that each phase has its figures.
func TestSteps(t *testing.T) {
	table, err := steps(t.Context(), 400)
	if err != nil {
		t.Fatal(err)
	}
	visits := 0.0
	for _, phase := range []string{"first fetches", "hour in which all are due", "all are due at once"} {
		n, ok := table.Find(phase, "visits")
		last, measured := table.Find(phase, "time, all")
		if !ok || !measured || last <= 0 {
			t.Errorf("%s: %v visits, longest step %v ms", phase, n, last)
		}
		visits += n
	}
	if visits != 400 {
		t.Errorf("%v visits, want 400", visits)
	}
}
