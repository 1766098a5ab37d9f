package ring

import (
	"math/rand/v2"
	"testing"
)

func TestArcCacheAgainstAModel(t *testing.T) {
	// The model is one owner per 256th of the circle: the latest answer heard about it.
	rnd := rand.New(rand.NewPCG(3, 3))
	cache := NewArcCache[byte](1 << 10)
	var model [256]int
	for range 20000 {
		start, end := byte(rnd.UintN(256)), byte(rnd.UintN(256))
		switch {
		case rnd.UintN(20) == 0:
			cache.Forget(at(end))
			for k := range model {
				if model[k] == int(end)+1 {
					model[k] = 0
				}
			}
		default:
			arc := Arc{at(start), at(end)}
			cache.Add(arc, end)
			for k := range model {
				owner := byte(model[k] - 1)
				way := Arc{at(byte(k) - 1), at(owner)} // from the key to its owner, the key included
				switch {
				case arc.Contains(at(byte(k))):
					model[k] = int(end) + 1
				case model[k] == 0:
				case arc.Contains(at(owner)), byte(k) != owner && way.Contains(at(end)):
					model[k] = 0 // no peer stands at owner any more, or another stands before it
				}
			}
		}
		key := byte(rnd.UintN(256))
		_, owner, ok := cache.Find(at(key))
		if want := model[key]; ok != (want > 0) || ok && int(owner)+1 != want {
			t.Fatalf("key %d: owner %d, %v; the model says %d", key, owner, ok, want-1)
		}
	}
}

func TestArcCacheIsBounded(t *testing.T) {
	cache := NewArcCache[int](3)
	for i := range 5 {
		cache.Add(Arc{at(byte(10 * i)), at(byte(10*i + 5))}, i)
		cache.Find(at(1)) // keeps the first one warm
	}
	if cache.Len() != 3 {
		t.Errorf("%d arcs, want 3", cache.Len())
	}
	if _, owner, ok := cache.Find(at(3)); !ok || owner != 0 {
		t.Error("the arc used last was forgotten")
	}
	if _, _, ok := cache.Find(at(13)); ok {
		t.Error("the arc used least is still there")
	}
	cache.Split(at(42))
	if _, _, ok := cache.Find(at(41)); ok {
		t.Error("keys before a peer that appeared still belong to the old owner")
	}
	if _, owner, ok := cache.Find(at(43)); !ok || owner != 4 {
		t.Error("keys behind a peer that appeared lost their owner")
	}
}
