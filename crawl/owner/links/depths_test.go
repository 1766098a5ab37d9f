package links

import (
	"math/rand/v2"
	"testing"
)

func TestDepths(t *testing.T) {
	for _, most := range []int{0, 1, 8, 1000} {
		d := newDepths(most)
		d.put(1, 5)
		if d.covers(1, 4) || !d.covers(1, 5) || !d.covers(1, 6) || d.covers(2, 9) || d.covers(0, 9) {
			t.Error("wrong at first")
		}
		d.put(1, 3)
		d.put(1, 9)
		if !d.covers(1, 3) {
			t.Error("the smaller depth is forgotten")
		}
		for i := range uint64(10000) {
			d.put(i+10, 0)
			if i%2 == 0 && !d.covers(1, 3) {
				t.Fatal("what is asked for is forgotten")
			}
		}
		if len(d.hashes) > max(most, ways) || most == 1000 && len(d.hashes) < most/2 {
			t.Errorf("room for %d, of %d", len(d.hashes), most)
		}
		d.Clear()
		if d.covers(1, 9) {
			t.Error("known after Clear")
		}
	}
}

// TestDepthsRemember: of as many URLs as there is room for most are remembered, and of those that
// were not put none is.
func TestDepthsRemember(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	const most = 1 << 12
	d := newDepths(most)
	put := make([]uint64, most)
	for i := range put {
		put[i] = rnd.Uint64()
		d.put(put[i], 7)
	}
	known := 0
	for _, h := range put {
		if d.covers(h, 7) {
			known++
		}
		if d.covers(rnd.Uint64(), 1<<31) {
			t.Fatal("one is known that was not put")
		}
	}
	if known < most*8/10 {
		t.Errorf("%d of %d are remembered", known, most)
	}
}
