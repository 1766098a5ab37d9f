package ring

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLeafSetsAreExact compares the leaf sets of every peer in rings of 1 to 40 against the sorted
// ring.
func TestLeafSetsAreExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	for n := 1; n <= 40; n++ {
		keys := make([]Key, n)
		for i := range keys {
			keys[i] = randomKey(rnd)
		}
		shuffled := slices.Clone(keys)
		slices.SortFunc(keys, Key.Compare)
		for i, self := range keys {
			set := NewLeafSet(self, DefaultR)
			rnd.Shuffle(n, func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			for _, k := range shuffled {
				if fits, inserted := set.Fits(k), set.Insert(k); fits != inserted {
					t.Fatalf("n=%d: Fits said %v, Insert %v", n, fits, inserted)
				}
			}
			var preds, succs []Key
			for d := 1; d <= min(DefaultR, n-1); d++ {
				preds = append(preds, keys[(i-d+n)%n])
				succs = append(succs, keys[(i+d)%n])
			}
			if !slices.Equal(preds, set.Predecessors()) || !slices.Equal(succs, set.Successors()) {
				t.Fatalf("n=%d: wrong leaf set of peer %d", n, i)
			}
			if got, want := set.Len(), min(n-1, 2*DefaultR); got != want {
				t.Errorf("n=%d: %d members, want %d", n, got, want)
			}
			if got, want := set.Whole(), n-1 < 2*DefaultR; got != want {
				t.Errorf("n=%d: whole = %v", n, got)
			}
			checkOwners(t, set, keys, rnd)
		}
	}
}

// TestLeafSetsShrinkExactly removes peers one by one: as long as the set was all of the ring it
// stays exact.
func TestLeafSetsShrinkExactly(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 12))
	self := randomKey(rnd)
	set := NewLeafSet(self, DefaultR)
	var others []Key
	for range 2*DefaultR - 1 {
		others = append(others, randomKey(rnd))
		set.Insert(others[len(others)-1])
	}
	for len(others) > 0 {
		if !set.Remove(others[0]) {
			t.Fatalf("%d others: nothing removed", len(others))
		}
		others = others[1:]
		fresh := NewLeafSet(self, DefaultR)
		for _, k := range others {
			fresh.Insert(k)
		}
		if !slices.Equal(fresh.Successors(), set.Successors()) || !slices.Equal(fresh.Predecessors(), set.Predecessors()) {
			t.Fatalf("%d others left: not the leaf set of a fresh start", len(others))
		}
	}
}

func TestLeafSetThatLostAPeerIsNotWhole(t *testing.T) {
	set := NewLeafSet(at(0), 3)
	for i := range byte(10) {
		set.Insert(at(20 * (i + 1)))
	}
	set.Remove(at(40))
	if set.Whole() || set.Covers(at(110)) || !set.Covers(at(50)) {
		t.Error("a leaf set with a free place claims to be all of the ring")
	}
}

func TestLeafSetThatLostOneSide(t *testing.T) {
	set := NewLeafSet(at(0), 2)
	for i := range byte(10) {
		set.Insert(at(20 * (i + 1)))
	}
	set.Remove(at(200))
	set.Remove(at(180))
	if got := set.Arc(); got.Whole() || set.Predecessor() != at(40) || !set.Covers(at(50)) || set.Estimate() != 3 {
		t.Errorf("arc %s after all predecessors are gone", got)
	}
}

func checkOwners(t *testing.T, set *LeafSet, keys []Key, rnd *rand.Rand) {
	t.Helper()
	for range 20 {
		key := randomKey(rnd)
		arc, ok := set.Owner(key)
		if ok != set.Covers(key) {
			t.Errorf("n=%d: Owner says %v, Covers does not", len(keys), ok)
		}
		if !ok {
			if set.Whole() {
				t.Errorf("n=%d: a whole ring does not cover %s", len(keys), key)
			}
			continue
		}
		owner := successor(keys, key)
		if arc.End != owner || !arc.Contains(key) {
			t.Errorf("n=%d: owner of %s is %s, want %s", len(keys), key, arc, owner)
		}
		if at := slices.Index(keys, owner); arc.Start != keys[(at-1+len(keys))%len(keys)] {
			t.Errorf("n=%d: arc %s does not begin at the predecessor", len(keys), arc)
		}
	}
}

func TestLeafSetOfOneAndTwo(t *testing.T) {
	set := NewLeafSet(at(100), 8)
	if !set.Arc().Whole() || set.Successor() != at(100) || set.Predecessor() != at(100) {
		t.Error("a lone peer is not its own neighbour")
	}
	set.Insert(at(200))
	if set.Successor() != at(200) || set.Predecessor() != at(200) || set.Len() != 1 {
		t.Error("the other of two peers is not on both sides")
	}
	if arc := set.Arc(); !arc.Contains(at(100)) || arc.Contains(at(200)) || !arc.Contains(at(0)) {
		t.Errorf("arc %s of the first of two", arc)
	}
	if !set.Remove(at(200)) || set.Remove(at(200)) || !set.Arc().Whole() {
		t.Error("removing the other of two does not leave one alone")
	}
}

func BenchmarkLeafSetOwner(b *testing.B) {
	rnd := rand.New(rand.NewPCG(5, 5))
	set := NewLeafSet(randomKey(rnd), DefaultR)
	for range 30 {
		set.Insert(randomKey(rnd))
	}
	key := set.Predecessors()[3]
	for b.Loop() {
		set.Owner(key)
	}
}

// successor returns the first of keys at or after key on the circle. Keys need no order.
func successor(keys []Key, key Key) Key {
	return slices.MinFunc(keys, func(a, b Key) int { return a.Sub(key).Compare(b.Sub(key)) })
}
