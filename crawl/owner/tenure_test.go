package owner

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestTenureStates drives the tenure of a host through its table of states.
func TestTenureStates(t *testing.T) {
	one, two := ondisk.Epoch{Counter: 1, Peer: "a"}, ondisk.Epoch{Counter: 2, Peer: "b"}
	var n tenure
	if n.barred(0) || n.lapsed(0) || n.changesAt() != never || n.thaw() {
		t.Errorf("a free host: %+v", n)
	}
	l := &lease{epoch: one, expires: 100}
	n.begin(l)
	if n.changesAt() != 100 || n.lapsed(99) || !n.lapsed(100) || !n.knows(one) || n.knows(two) {
		t.Errorf("held: %+v", n)
	}
	n.freeze(50)
	if n.changesAt() != 50 || n.lapsed(100) || !n.thaw() || n.thaw() {
		t.Errorf("frozen: %+v", n)
	}
	if n.end(100) != l || n.lease != nil || !n.barred(99) || n.barred(100) || !n.knows(one) {
		t.Errorf("ended: %+v", n)
	}
}

// TestTenureClaims: the lease that a record names keeps others from the host until it is known to
// be over, and one that ended here keeps nobody.
func TestTenureClaims(t *testing.T) {
	one, two := ondisk.Epoch{Counter: 1, Peer: "a"}, ondisk.Epoch{Counter: 2, Peer: "b"}
	for _, c := range []struct {
		name   string
		events func(n *tenure)
		barred bool
	}{
		{"one may be alive", func(n *tenure) { n.claimed(one, 100, 10) }, true},
		{"and is over", func(n *tenure) { n.claimed(one, 100, 10); n.ended(one) }, false},
		{"another is over", func(n *tenure) { n.claimed(one, 100, 10); n.ended(two) }, true},
		{"two may be alive, one is over", func(n *tenure) { n.claimed(one, 100, 10); n.claimed(two, 90, 10); n.ended(two) }, true},
		{"the first one's time was over", func(n *tenure) { n.claimed(one, 20, 10); n.claimed(two, 90, 30); n.ended(two) }, false},
		{"one that is awaited comes", func(n *tenure) { n.claimed(one, 100, 10); n.awaits(two, 90); n.lift(two) }, false},
		{"one is adopted", func(n *tenure) { n.claimed(one, 100, 10); n.lift(one) }, false},
	} {
		var n tenure
		if c.events(&n); n.barred(50) != c.barred {
			t.Errorf("%s: barred is %v", c.name, !c.barred)
		}
	}
	var n tenure
	if n.ended(two); !n.knows(two) {
		t.Error("what is over is not known")
	}
	if n.ended(one); !n.knows(two) || n.knows(one) {
		t.Error("an earlier end takes the place of a later one")
	}
	if n = (tenure{}); n.knows(ondisk.Epoch{}) {
		t.Error("no epoch is known where nothing ever ended")
	}
}
