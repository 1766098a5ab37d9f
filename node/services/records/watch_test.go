package records

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/crawltest"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
	"github.com/apoidea/apoidea/node/services/wire"
)

// newWatch is peer a in a ring with b and c.
func newWatch() (*Watch, *seat, *circle) {
	c := &circle{}
	c.set("a", "b", "c")
	s := &seat{circle: c, self: "a"}
	return NewWatch(s, "a"), s, c
}

// TestRingWatchVersion: the version changes with each change of what handoff asks the ring, and
// else never.
func TestRingWatchVersion(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w, s, c := newWatch()
		for _, row := range []struct {
			name   string
			change func()
			want   bool
		}{
			{"at first", func() {}, true},
			{"nothing", func() {}, false},
			{"time passes", func() { time.Sleep(time.Hour) }, false},
			{"a peer joins", func() { c.set("a", "b", "c", "d") }, true},
			{"a peer dies", func() { c.set("a", "b", "c") }, true},
			{"this peer gives up its arc", func() { s.set(func() { s.joining = true }) }, true},
			{"and serves again", func() { s.set(func() { s.joining = false }) }, true},
			{"a goodbye", func() { w.Goodbye("b") }, true},
			{"who said nothing cannot be reached", func() { w.gone("c") }, false},
			{"who said goodbye cannot be reached", func() { w.gone("b") }, true},
			{"once more", func() { w.gone("b") }, false},
			{"another goodbye", func() { w.Goodbye("c") }, true},
			{"a part of its time", func() { time.Sleep(DepartTime - 1) }, false},
			{"all of it", func() { time.Sleep(time.Nanosecond) }, true},
			{"long after it", func() { time.Sleep(time.Hour) }, false},
			{"attached to others", func() { s.set(func() { s.attached = []dht.Peer{dht.NewPeer("b", nil)} }) }, true},
		} {
			before := w.Version()
			if row.name == "at first" {
				before = 0
			}
			row.change()
			if after := w.Version(); (after != before) != row.want || after < before {
				t.Errorf("%s: version %d after %d", row.name, after, before)
			}
		}
	})
}

// TestExpelledHandOver: records of an expelled peer are accepted for a minute, those of a dead peer
// or of an untrusted one are not.
func TestExpelledHandOver(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w, _, _ := newWatch()
		k := &Keeping{ring: w}
		push := k.Service().Behind(rpctest.Untrusted{})
		accepted := func(id peer.ID) bool {
			raw, err := proto.Marshal(&wire.Records{Space: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			_, err = push(t.Context(), id, raw)
			return calls.CodeOf(err) == calls.CodeRefused // no such space; busy for others
		}
		w.Died("dead", false)
		w.Died("expelled", true)
		time.Sleep(DepartTime - 1)
		for id, want := range map[peer.ID]bool{"dead": false, "expelled": true, "untrusted": false} {
			if accepted(id) != want {
				t.Errorf("records of %s: accepted %t", id, !want)
			}
		}
		if time.Sleep(time.Nanosecond); accepted("expelled") {
			t.Error("records of an expelled peer are accepted after a minute")
		}
	})
}

// TestRingWatchDeparts: a goodbye counts until its time is over or its peer cannot be reached.
func TestRingWatchDeparts(t *testing.T) {
	crawltest.Bubble(t, func(t *testing.T) {
		w, _, c := newWatch()
		if _, left := w.LeftAgo("b"); left || w.Departs("b") {
			t.Error("departs without a goodbye")
		}
		w.Goodbye("b")
		c.set("a", "c")
		time.Sleep(DepartTime - time.Second)
		if ago, left := w.LeftAgo("b"); !left || ago != DepartTime-time.Second || !w.Departs("b") {
			t.Errorf("%s after the goodbye: %t, departs %t", ago, left, w.Departs("b"))
		}
		if ids := w.Neighbours(); !slices.Contains(ids, "b") || w.Knows("b") {
			t.Errorf("neighbours %q; b is a leaf: %t", ids, w.Knows("b"))
		}
		time.Sleep(time.Second)
		if _, left := w.LeftAgo("b"); left || w.Departs("b") {
			t.Error("departs when its time is over")
		}
		if ids := w.Neighbours(); slices.Contains(ids, "b") {
			t.Errorf("neighbours %q", ids)
		}
		w.Goodbye("c")
		if !w.gone("c") || w.Departs("c") || w.gone("c") {
			t.Error("departs, or is news again, although it cannot be reached")
		}
		if _, left := w.LeftAgo("c"); !left {
			t.Error("no goodbye although there was one, and leases that it gave")
		}
	})
}

// TestRingWatchSuccessors: replicas are the next peers, as many as there are.
func TestRingWatchSuccessors(t *testing.T) {
	w, s, c := newWatch()
	_, succs := s.Leaves()
	next := []peer.ID{succs[0].ID, succs[1].ID}
	for n, want := range [][]peer.ID{nil, next[:1], next, next} {
		if got := w.successors(n); !slices.Equal(got, want) {
			t.Errorf("%d successors: %q, want %q", n, got, want)
		}
	}
	if got := w.successors(-1); len(got) > 0 {
		t.Errorf("-1 successors: %q", got)
	}
	c.set("a")
	if got := w.successors(2); len(got) > 0 {
		t.Errorf("alone: %q", got)
	}
}

// TestRingWatchOwner: a peer that knows no leaf set hands its records to whom it is attached to,
// nearest behind the position.
func TestRingWatchOwner(t *testing.T) {
	w, s, c := newWatch()
	pos := ring.PosOf(ring.PeerKey([]byte("b")))
	if id, ok := w.Owner(pos); !ok || id != "b" {
		t.Errorf("owner of b's position: %q", id)
	}
	c.set()
	if id, ok := w.Owner(pos); ok {
		t.Errorf("owner when nobody is known: %q", id)
	}
	s.attached = []dht.Peer{dht.NewPeer("c", nil), dht.NewPeer("b", nil), dht.NewPeer("a", nil)}
	if id, ok := w.Owner(pos); !ok || id != "b" {
		t.Errorf("owner among those attached to: %q", id)
	}
}
