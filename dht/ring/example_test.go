package ring_test

import (
	"fmt"

	"github.com/apoidea/apoidea/dht/ring"
)

// at returns a point by its first byte, so that a circle can be drawn in the head.
func at(b byte) ring.Key { return ring.Key{b} }

// The owner of a host is the first peer clockwise from the hash of its name.
func ExampleLeafSet_Owner() {
	names := map[ring.Key]string{}
	anna := ring.NewLeafSet(ring.PeerKey([]byte("anna")), ring.DefaultR)
	for _, name := range []string{"anna", "boris", "chloe"} {
		key := ring.PeerKey([]byte(name))
		names[key] = name
		anna.Insert(key)
	}
	for _, host := range []string{"example.org", "docs.example.org", "example.com"} {
		arc, _ := anna.Owner(ring.HostKey(host))
		fmt.Println(host, "belongs to", names[arc.End])
	}
	// Output:
	// example.org belongs to chloe
	// docs.example.org belongs to chloe
	// example.com belongs to boris
}

// An arc goes clockwise from behind its start to its end, past zero if need be.
func ExampleArc() {
	arc := ring.Arc{Start: at(0xE0), End: at(0x20)}
	fmt.Println(arc.Contains(at(0xE0)), arc.Contains(at(0xF0)), arc.Contains(at(0x20)), arc.Contains(at(0x30)))
	fmt.Println(arc.Fraction())
	// Output:
	// false true true false
	// 0.25
}

// A peer knows its neighbours on both sides, and from them who owns what nearby.
func ExampleLeafSet() {
	leaves := ring.NewLeafSet(at(0x80), 2)
	for _, b := range []byte{0x10, 0x40, 0x60, 0xA0, 0xC0, 0xF0} {
		leaves.Insert(at(b))
	}
	fmt.Println("owns", leaves.Arc())
	fmt.Println("before", leaves.Predecessors())
	fmt.Println("after", leaves.Successors())

	arc, ok := leaves.Owner(at(0xB0))
	fmt.Println(arc.End, ok)
	_, ok = leaves.Owner(at(0x20))
	fmt.Println(ok, "about", leaves.Estimate(), "peers")
	// Output:
	// owns (600000000000, 800000000000]
	// before [600000000000 400000000000]
	// after [a00000000000 c00000000000]
	// c00000000000 true
	// false about 8 peers
}

// What others said is a hint: the latest word about a part of the circle holds until its peer
// denies it.
func ExampleArcCache() {
	cache := ring.NewArcCache[string](1000)
	cache.Add(ring.Arc{Start: at(0x40), End: at(0x80)}, "anna")
	cache.Add(ring.Arc{Start: at(0x40), End: at(0x60)}, "boris") // joined between

	_, owner, _ := cache.Find(at(0x50))
	fmt.Println(owner)
	_, owner, _ = cache.Find(at(0x70))
	fmt.Println(owner)

	cache.Forget(at(0x60))
	_, _, ok := cache.Find(at(0x50))
	fmt.Println(ok)
	// Output:
	// boris
	// anna
	// false
}
