package frontier

import (
	"net/netip"
	"testing"
	"time"
)

// TestAddresses: hosts that wait for an address are let go in their order, as soon as it has room
// and its gap is over; one without hosts that owes nothing is forgotten.
func TestAddresses(t *testing.T) {
	as := addresses[int]{most: 1, gap: time.Second, at: make(map[netip.Addr]*address[int])}
	ip, now := netip.MustParseAddr("192.0.2.1"), time.Unix(1000, 0)
	a := as.open(ip)
	one, two, three := &host[int]{name: "one"}, &host[int]{name: "two"}, &host[int]{name: "three"}
	a.hosts = 3
	if !as.takes(now, a) {
		t.Error("a new address takes nobody")
	}
	as.begin(now, a)
	for _, h := range []*host[int]{one, two, three} {
		as.park(h, a)
	}
	if as.first(now.Add(time.Hour)) != nil || as.takes(now.Add(time.Hour), a) {
		t.Error("there is room for a second request")
	}
	as.end(a)
	if as.first(now) != nil {
		t.Error("the gap is not kept")
	}
	now = now.Add(time.Second)
	if as.first(now) != a || a.waiting[0] != one || as.takes(now, a) {
		t.Error("the first that waits is not next")
	}
	if !as.unpark(two) || as.unpark(two) || !as.unpark(one) || a.waiting[0] != three {
		t.Errorf("%d wait, want the third alone", len(a.waiting))
	}
	as.begin(now, a)
	if ok, due := as.enter(now.Add(time.Minute), ip); ok || !due.After(now.Add(time.Minute)) {
		t.Error("a request of no queue is made beside another")
	}
	as.end(a)
	as.unpark(three)
	a.hosts = 0
	now = now.Add(time.Second)
	if ok, _ := as.enter(now, ip); !ok {
		t.Error("a request of no queue is not let in")
	}
	as.end(a)
	if as.sweep(now); len(as.at) != 1 {
		t.Error("an address was forgotten that is to be left alone yet")
	}
	if as.sweep(now.Add(time.Second)); len(as.at) != 0 || len(as.entered) != 0 || len(as.freed) != 0 {
		t.Errorf("%d addresses are kept, %d of requests, %d free", len(as.at), len(as.entered), len(as.freed))
	}
	if as.shared(netip.MustParseAddr("127.0.0.1")) || as.shared(netip.Addr{}) || !as.shared(ip) {
		t.Error("loopback, or nothing, is shared, or an address is not")
	}
}
