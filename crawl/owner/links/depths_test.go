package links

import "testing"

func TestDepths(t *testing.T) {
	const most = 1000
	d := newDepths(most)
	if d.Set(1, 5); d.covers(1, 4) || !d.covers(1, 5) || !d.covers(1, 6) || d.covers(2, 9) || d.covers(0, 9) {
		t.Error("a URL is not covered from its depth on, or another one is")
	}
	if d.Set(1, 3); !d.covers(1, 3) {
		t.Error("a smaller depth is not stored")
	}
	for i := range uint64(10 * most) {
		d.Set(i+10, 0)
		if i%2 == 0 && !d.covers(1, 3) {
			t.Fatal("a URL in use was evicted")
		}
	}
	if d.covers(10, 9) {
		t.Error("an unused URL was not evicted")
	}
	if d.Clear(); d.covers(1, 9) {
		t.Error("covered after Clear")
	}
}
