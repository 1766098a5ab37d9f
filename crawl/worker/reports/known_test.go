package reports

import (
	"math/rand/v2"
	"testing"
)

// TestKnownForgetsTheOldest: a full set drops what was met longest ago, never what was just met.
func TestKnownForgetsTheOldest(t *testing.T) {
	k := NewKnown(ways) // one set
	for i := range uint64(ways) {
		k.add([]uint64{i + 1})
	}
	if keep := k.filter([]uint64{1}, nil); len(keep) != 0 {
		t.Fatal("1 is not known")
	}
	k.add([]uint64{100}) // 2 was met longest ago
	for h, want := range map[uint64]bool{1: true, 2: false, 3: true, 100: true} {
		if got := len(k.filter([]uint64{h}, nil)) == 0; got != want {
			t.Errorf("%d known: %v, want %v", h, got, want)
		}
	}
}

// TestKnownHolds: as many links as it has room for are mostly held, and nothing is known that was
// not added.
func TestKnownHolds(t *testing.T) {
	const n = 1 << 14
	k := NewKnown(n)
	if keep := k.filter([]uint64{1, 2}, nil); len(keep) != 2 || k.sets != nil {
		t.Errorf("before anything was added %d of 2 are strangers, and there is room for %d", len(keep), len(k.sets)*ways)
	}
	k.add([]uint64{1})
	if got := len(k.sets) * ways; got != n {
		t.Errorf("room for %d, want %d", got, n)
	}
	r := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, n/2)
	for i := range hashes {
		hashes[i] = r.Uint64()
	}
	k.add(hashes)
	if lost := len(k.filter(hashes, nil)); lost > n/20 {
		t.Errorf("%d of %d forgotten", lost, len(hashes))
	}
	for i := range hashes {
		hashes[i] = r.Uint64()
	}
	if keep := k.filter(hashes, nil); len(keep) != len(hashes) {
		t.Errorf("%d of %d strangers are known", len(hashes)-len(keep), len(hashes))
	}
}

func BenchmarkKnown(b *testing.B) {
	k := NewKnown(256 << 10)
	r := rand.New(rand.NewPCG(1, 2))
	hashes := make([]uint64, 150)
	for i := range hashes {
		hashes[i] = r.Uint64()
	}
	k.add(hashes)
	keep := make([]int32, 0, len(hashes))
	b.ReportAllocs()
	for b.Loop() {
		keep = k.filter(hashes, keep[:0])
	}
}
