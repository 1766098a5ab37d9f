package owner

import (
	"slices"
	"testing"
)

// put holds an entry of n links in an outbox as its part of an owner does.
func put(b *outbox, key string, n int) (id uint64, ok bool) {
	if !b.room(n) {
		return 0, false
	}
	id = b.hold(&outEntry{key: key, n: n})
	for i := range n {
		b.queue = append(b.queue, OutLink{ID: id<<linkIDBits | uint64(i)})
	}
	return id, true
}

// TestOutboxStates drives the outbox through its table of states.
func TestOutboxStates(t *testing.T) {
	b := newOutbox(10)
	one, _ := put(&b, "one", 4)
	two, _ := put(&b, "two", 4)
	if _, ok := put(&b, "three", 4); ok || !b.spilled || b.mayRefill() {
		t.Errorf("a third entry finds room: %v, spilled %v, may be refilled %v", ok, b.spilled, b.mayRefill())
	}
	if got := b.next(3); len(got) != 3 || b.queued() != 5 {
		t.Errorf("%d links left, %d are queued", len(got), b.queued())
	}
	b.drop(two)
	if got := b.next(9); len(got) != 1 || got[0].ID != one<<linkIDBits|3 || b.queued() != 0 {
		t.Errorf("of the first entry %v are left, %d queued", got, b.queued())
	}
	if !b.mayRefill() {
		t.Error("half of it is free, and what lies on disk stays there")
	}
	for i, want := range []bool{false, false, false, false, true} {
		link := min(uint64(i), 2) // the third one twice
		if i == 4 {
			link = 3
		}
		if e := b.acknowledge(one<<linkIDBits | link); (e != nil) != want {
			t.Errorf("acknowledged link %d: the entry is through: %v", link, e != nil)
		}
	}
	for _, id := range []uint64{two << linkIDBits, one<<linkIDBits | 9, 99 << linkIDBits} {
		if b.acknowledge(id) != nil {
			t.Errorf("link %x is none of any entry", id)
		}
	}
	if b.drop(one); b.links != 0 || len(b.byKey) != 0 {
		t.Errorf("%d links, %d keys are left of nothing", b.links, len(b.byKey))
	}
}

// TestOutboxTurns: entries that are to be emitted anew have their turns in order; one that is put off goes behind.
func TestOutboxTurns(t *testing.T) {
	b := newOutbox(10)
	for _, key := range []string{"one", "two"} {
		b.again = append(b.again, b.hold(&outEntry{key: key, n: 1}))
	}
	var got []string
	if b.againNext() != 0 {
		t.Errorf("the next turn is at %d", b.againNext())
	}
	b.putOff(500)
	if b.againNext() != 500 {
		t.Errorf("one was put off, the next turn is at %d", b.againNext())
	}
	for b.againNext() != never {
		got = append(got, b.turn().key)
		b.pass()
	}
	if !slices.Equal(got, []string{"two", "one"}) {
		t.Errorf("turns of %v", got)
	}
}
