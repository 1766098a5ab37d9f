package handoff

import (
	"errors"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// TestKept: what was handed to a peer is kept while that one does not show it, for an hour; when it
// is gone it is pushed to whoever answers then, and kept as long as that one does not take it.
func TestKept(t *testing.T) {
	w := newWorld(t, 1, 3, 0)
	list := w.clockwise()
	p, to, next := list[0], list[1], list[2]
	p.start()
	kept, pos := Kept(to.id), ring.PosOf(to.key)
	if Owner(kept) != to.id || !IsKept(kept) || IsKept(to.id) {
		t.Fatal("names")
	}
	there := func(members ...*keep) {
		p.view = map[peer.ID]standing{}
		for _, m := range members {
			p.view[m.id] = member
		}
		p.changes++
	}
	put := func() {
		p.copies = map[peer.ID]shelf{kept: {}, to.id: {}}
		p.copies[kept].merge(string(pos[:])+"\x00", "version1")
	}
	// walk walks once, and answers pushes; it says to whom one went, and whether all was dropped.
	walk := func(failed error) (pushed peer.ID, dropped bool) {
		for range 10 {
			w.now = w.now.Add(40 * time.Second)
			ready, err := p.keeper.Tick(w.now)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range ready.Drops {
				dropped = dropped || d.Source == kept && d.Lo == ring.Pos{} && d.Hi == lastPos
			}
			for _, call := range ready.Calls {
				pushed = call.To
				if call.Push.From != to.id {
					t.Errorf("pushed as %q", call.Push.From)
				}
				if _, err := p.keeper.Result(call.ID, failed); err != nil {
					t.Fatal(err)
				}
			}
		}
		return pushed, dropped
	}

	put()
	there(p, to, next)
	if pushed, dropped := walk(nil); pushed != "" || dropped || !p.keeper.Clean() {
		t.Errorf("not shown: pushed to %q, dropped %v, clean %v", pushed, dropped, p.keeper.Clean())
	}
	if held, err := p.keeper.holds(ring.Arc{Start: p.key, End: next.key}); held || err != nil {
		t.Errorf("it holds up the arc of another: %v, %v", held, err)
	}
	p.copies[to.id].merge(string(pos[:])+"\x00", "version2")
	if pushed, dropped := walk(nil); pushed != "" || !dropped {
		t.Errorf("shown: pushed to %q, dropped %v", pushed, dropped)
	}
	p.copies = map[peer.ID]shelf{kept: {}}
	if _, dropped := walk(nil); dropped {
		t.Error("nothing is there, and it is dropped again")
	}

	put()
	there(p, next)
	if pushed, dropped := walk(errors.New("busy")); pushed != next.id || dropped {
		t.Errorf("gone, and the next does not take it: pushed to %q, dropped %v", pushed, dropped)
	}
	for range 12 {
		if _, dropped := walk(errors.New("busy")); dropped {
			t.Fatal("dropped, and nobody has it")
		}
	}
	if pushed, dropped := walk(nil); pushed != next.id || !dropped {
		t.Errorf("gone: pushed to %q, dropped %v", pushed, dropped)
	}

	put()
	there(p, to, next)
	gone := false
	for begun := w.now; w.now.Sub(begun) < 2*keptFor && !gone; {
		if _, gone = walk(nil); gone && w.now.Sub(begun) < keptFor {
			t.Errorf("dropped after %v", w.now.Sub(begun))
		}
	}
	if !gone {
		t.Error("kept for two hours")
	}
}
