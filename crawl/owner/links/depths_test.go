package links

import (
	"testing"
)

func TestDepths(t *testing.T) {
	d := newDepths(8)
	d.put(1, 5)
	if d.covers(1, 4) || !d.covers(1, 5) || !d.covers(1, 6) || d.covers(2, 9) {
		t.Error("wrong at first")
	}
	d.put(1, 3)
	d.put(1, 9)
	if !d.covers(1, 3) {
		t.Error("the smaller depth is forgotten")
	}
	for i := range uint64(1000) {
		d.put(i+10, 0)
		if i%2 == 0 && !d.covers(1, 3) {
			t.Fatal("what is asked for is forgotten")
		}
		if len(d.young)+len(d.old) > 9 {
			t.Fatalf("%d are remembered", len(d.young)+len(d.old))
		}
	}
}
