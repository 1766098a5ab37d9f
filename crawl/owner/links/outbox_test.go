package links

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
	"github.com/apoidea/apoidea/dht/ring"
)

// put holds an entry of n links in an outbox.
func put(b *Outbox, key string, n int) (id uint64, ok bool) {
	list := &ondisk.Links{Links: make([]ondisk.Link, n)}
	ok = b.Hold(&Entry{Key: key}, list, func(string) ring.Key { return ring.Key{} })
	return b.byKey[key], ok
}

// TestOutboxStates drives the outbox through its table of states.
func TestOutboxStates(t *testing.T) {
	b := NewOutbox(10)
	one, _ := put(&b, "one", 4)
	two, _ := put(&b, "two", 4)
	if _, ok := put(&b, "three", 4); ok || !b.spilled || b.MayRefill() {
		t.Errorf("a third entry finds room: %v, spilled %v, may be refilled %v", ok, b.spilled, b.MayRefill())
	}
	if got := b.Next(3); len(got) != 3 || b.Queued() != 5 {
		t.Errorf("%d links left, %d are queued", len(got), b.Queued())
	}
	b.drop(two)
	if got := b.Next(9); len(got) != 1 || got[0].ID != one<<linkIDBits|3 || b.Queued() != 0 {
		t.Errorf("of the first entry %v are left, %d queued", got, b.Queued())
	}
	if !b.MayRefill() {
		t.Error("half of it is free, and what lies on disk stays there")
	}
	for i, want := range []bool{false, false, false, false, true} {
		link := min(uint64(i), 2) // the third one twice
		if i == 4 {
			link = 3
		}
		if e := b.Acknowledge(one<<linkIDBits | link); (e != nil) != want {
			t.Errorf("acknowledged link %d: the entry is through: %v", link, e != nil)
		}
	}
	for _, id := range []uint64{two << linkIDBits, one<<linkIDBits | 9, 99 << linkIDBits} {
		if b.Acknowledge(id) != nil {
			t.Errorf("link %x is none of any entry", id)
		}
	}
	if b.drop(one); b.links != 0 || len(b.byKey) != 0 {
		t.Errorf("%d links, %d keys are left of nothing", b.links, len(b.byKey))
	}
}

// TestOutboxSearch: what memory had no room for is searched for on disk, until a search has met all
// of it.
func TestOutboxSearch(t *testing.T) {
	b := NewOutbox(4)
	b.Spill()
	put(&b, "one", 4)
	if put(&b, "two", 4); b.MayRefill() || !b.Holds([]byte("one")) || b.Holds([]byte("two")) {
		t.Error("there is no room, and a search would begin")
	}
	b.Remove([]byte("one"))
	if !b.MayRefill() || string(b.Resume([]byte("a"))) != "a" {
		t.Error("there is room, and no search begins at the beginning")
	}
	if b.Passed([]byte("k")); string(b.Resume([]byte("a"))) != "k\x00" {
		t.Error("the search does not go on behind what it has passed")
	}
	put(&b, "one", 4)
	put(&b, "two", 4)
	if b.Searched(); !b.spilled {
		t.Error("the search left something on disk, and is over")
	}
	b.Leave(ring.Pos{})
	b.Resume([]byte("a"))
	if b.Searched(); b.MayRefill() || b.links != 0 {
		t.Error("the search met all, and goes on")
	}
}
