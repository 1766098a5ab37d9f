package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestPositionBalance holds the figure of design 3: of eight draws the largest arc of 1,000 peers
// is about 2.6 times the mean.
func TestPositionBalance(t *testing.T) {
	imbalance := func(choices int) float64 {
		rnd := rand.New(rand.NewPCG(4, 4))
		keys := []Key{randomKey(rnd)}
		for len(keys) < 1000 {
			candidates, arcs := make([]Key, choices), make([]Arc, choices)
			for i := range candidates {
				candidates[i] = randomKey(rnd)
				at, _ := slices.BinarySearchFunc(keys, candidates[i], Key.Compare)
				arcs[i] = Arc{Start: keys[(at-1+len(keys))%len(keys)], End: keys[at%len(keys)]}
			}
			best := candidates[BestPosition(candidates, arcs)]
			at, _ := slices.BinarySearchFunc(keys, best, Key.Compare)
			keys = slices.Insert(keys, at, best)
		}
		largest := 0.0
		for i, k := range keys {
			largest = max(largest, Arc{Start: keys[(i-1+len(keys))%len(keys)], End: k}.Fraction())
		}
		return largest * float64(len(keys))
	}
	one, eight := imbalance(1), imbalance(PositionChoices)
	t.Logf("max/mean arc of 1,000 peers: %.2f with one draw, %.2f with eight", one, eight)
	if eight > 3.2 || one < 2*eight {
		t.Errorf("max/mean %.2f with one draw, %.2f with eight", one, eight)
	}
}
