package hosts

import (
	"testing"

	"github.com/apoidea/apoidea/crawl/owner/ondisk"
)

// TestTenureStates drives the tenure of a host through its table of states.
func TestTenureStates(t *testing.T) {
	one, two := ondisk.Epoch{Counter: 1, Peer: "a"}, ondisk.Epoch{Counter: 2, Peer: "b"}
	var n Tenure
	if n.Barred(0) || n.Lapsed(0) || n.changesAt() != Never || n.Thaw() {
		t.Errorf("a free host: %+v", n)
	}
	l := &Lease{Session: &Session{Peer: "w"}, Epoch: one, Expires: 100}
	n.Begin(l)
	if n.changesAt() != 100 || n.Lapsed(99) || !n.Lapsed(100) || !n.Knows(one) || n.Knows(two) {
		t.Errorf("held: %+v", n)
	}
	n.Freeze(50)
	if n.changesAt() != 50 || n.Lapsed(100) || !n.Thaw() || n.Thaw() {
		t.Errorf("frozen: %+v", n)
	}
	if n.End(100) != l || n.Lease != nil || !n.Barred(99) || n.Barred(100) || !n.Knows(one) {
		t.Errorf("ended: %+v", n)
	}
}

// TestTenureClaims: the lease that a record names keeps others from the host until it is known to
// be over, and one that ended here keeps nobody.
func TestTenureClaims(t *testing.T) {
	one, two := ondisk.Epoch{Counter: 1, Peer: "a"}, ondisk.Epoch{Counter: 2, Peer: "b"}
	for _, c := range []struct {
		name   string
		events func(n *Tenure)
		barred bool
	}{
		{"one may be alive", func(n *Tenure) { n.Claimed(one, 100, 10) }, true},
		{"and is over", func(n *Tenure) { n.Claimed(one, 100, 10); n.Ended(one) }, false},
		{"another is over", func(n *Tenure) { n.Claimed(one, 100, 10); n.Ended(two) }, true},
		{"two may be alive, one is over", func(n *Tenure) { n.Claimed(one, 100, 10); n.Claimed(two, 90, 10); n.Ended(two) }, true},
		{"the first one's time was over", func(n *Tenure) { n.Claimed(one, 20, 10); n.Claimed(two, 90, 30); n.Ended(two) }, false},
		{"one that is awaited comes", func(n *Tenure) { n.Claimed(one, 100, 10); n.Awaits(two, 90); n.Lift(two) }, false},
		{"one is adopted", func(n *Tenure) { n.Claimed(one, 100, 10); n.Lift(one) }, false},
	} {
		var n Tenure
		if c.events(&n); n.Barred(50) != c.barred {
			t.Errorf("%s: barred is %v", c.name, !c.barred)
		}
	}
	var n Tenure
	if n.Ended(two); !n.Knows(two) {
		t.Error("what is over is not known")
	}
	if n.Ended(one); !n.Knows(two) || n.Knows(one) {
		t.Error("an earlier end takes the place of a later one")
	}
	if n = (Tenure{}); n.Knows(ondisk.Epoch{}) {
		t.Error("no epoch is known where nothing ever ended")
	}
}
