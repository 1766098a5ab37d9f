package ringsvg

import "testing"

func TestColorsOfNeighborsDiffer(t *testing.T) {
	seen := make(map[string]bool)
	for i := range 64 {
		seen[Color(i)] = true
	}
	if len(seen) != 64 {
		t.Errorf("64 members have %d colors", len(seen))
	}
	if red := hsl(0, 1, 0.5); red != "#ff0000" {
		t.Errorf("red is %s", red)
	}
}
