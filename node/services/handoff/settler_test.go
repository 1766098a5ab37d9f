package handoff

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// clockwise returns the peers in the order of the ring.
func (w *world) clockwise() []*keep {
	list := slices.Clone(w.peers)
	slices.SortFunc(list, func(a, b *keep) int { return a.key.Compare(b.key) })
	return list
}

// TestNeighbourMustSeeTheSameRing: a newcomer takes over the arc of a peer that died before it knew
// of the newcomer. The only copy lies with one that still believes the dead alive, and so has
// nothing to push; its word is worth nothing until it knows better.
func TestNeighbourMustSeeTheSameRing(t *testing.T) {
	w := newWorld(t, 1, 3, 0)
	list := w.clockwise()
	dies, comes, copies := list[0], list[1], list[2]
	dies.start()
	copies.start()
	w.converge()
	for range 50 {
		w.write()
	}
	comes.start()
	copies.learn(comes.id)
	comes.grow()
	dies.stop(false)
	comes.learn(dies.id)
	comes.grow()
	for range 1000 {
		comes.tick()
		copies.tick()
		w.deliver()
		w.deliver()
		w.now = w.now.Add(50 * time.Millisecond)
	}
	if comes.settler.All() {
		t.Error("settled on the word of a peer that sees another ring")
	}
	w.converge()
	w.audit()
}

// around is a ring for a settler alone.
type around struct {
	arc     ring.Arc
	serves  bool
	ids     []peer.ID
	departs peer.ID
	left    map[peer.ID]time.Time
}

func (a *around) Arc() (ring.Arc, bool)   { return a.arc, a.serves }
func (a *around) Neighbours() []peer.ID   { return a.ids }
func (a *around) Departs(id peer.ID) bool { return id == a.departs }

func (a *around) Left(id peer.ID) (at time.Time, seen bool) {
	at, seen = a.left[id]
	return at, seen
}

// TestSettlerOfTheDead: a neighbour that is gone without an answer is waited out from its death, if
// that was seen.
func TestSettlerOfTheDead(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	for _, row := range []struct {
		name    string
		left    map[peer.ID]time.Time
		settles int
	}{
		{"seen to die before the arc came", map[peer.ID]time.Time{"b": at(-500)}, 500},
		{"seen to die long before", map[peer.ID]time.Time{"b": at(-2000)}, 20},
		{"not seen", nil, 1000},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := &around{ids: []peer.ID{"a", "b"}, arc: ring.Arc{Start: ring.Key{5}, End: ring.Key{9}}, serves: true}
			s := NewSettler(time.Second, 100*time.Millisecond, r, func(ring.Arc) bool { return true })
			asks, _, _ := s.Tick(at(0))
			if len(asks) != 2 {
				t.Fatalf("asks %v", asks)
			}
			s.Result(at(10), asks[0].ID, Nothing)
			r.ids, r.left = r.ids[:1], row.left
			for ms := 20; ms <= 1000; ms += 20 {
				if _, changed, next := s.Tick(at(ms)); changed != (ms == row.settles) || !changed && next.After(at(row.settles)) {
					t.Fatalf("at %d ms: settled %t, next %v", ms, changed, next.Sub(now))
				} else if changed {
					return
				}
			}
			t.Error("never settled")
		})
	}
}

// TestSettler walks a settler through arcs that come, grow, shrink and go.
func TestSettler(t *testing.T) {
	now := time.Unix(1e9, 0)
	at := func(ms int) time.Time { return now.Add(time.Duration(ms) * time.Millisecond) }
	small := ring.Arc{Start: ring.Key{5}, End: ring.Key{9}}
	large := ring.Arc{Start: ring.Key{3}, End: ring.Key{9}}
	inLarge := ring.Pos{4}
	clean := true
	r := &around{ids: []peer.ID{"a", "b"}}
	s := NewSettler(time.Second, 100*time.Millisecond, r, func(ring.Arc) bool { return clean })
	tick := func(ms, asks int, changed bool) []Ask {
		t.Helper()
		got, ch, _ := s.Tick(at(ms))
		if len(got) != asks || ch != changed {
			t.Fatalf("at %d ms: %d questions, changed %v; want %d, %v", ms, len(got), ch, asks, changed)
		}
		return got
	}
	tick(0, 0, false) // nothing is served
	r.arc, r.serves, clean = small, true, false
	tick(10, 0, false) // not clean itself
	clean = true
	asks := tick(20, 2, false)
	tick(30, 0, false) // under way
	s.Result(at(40), asks[0].ID, Nothing)
	s.Result(at(40), asks[0].ID, Nothing) // twice
	s.Result(at(40), asks[1].ID, NotYet)
	tick(50, 0, false)
	asks = tick(140, 1, false)
	if asks[0].To != "b" || asks[0].Arc != small {
		t.Fatalf("asks %+v", asks[0])
	}
	s.Result(at(150), asks[0].ID, Nothing)
	tick(150, 0, true)
	if !s.All() || !s.Settled(ring.Pos{7}) || s.Settled(inLarge) {
		t.Fatal("the small arc is to have settled, and no more")
	}
	r.arc = large
	asks = tick(200, 2, false)
	if s.All() || !s.Settled(ring.Pos{7}) || s.Settled(inLarge) {
		t.Fatal("what had settled stays so, what came has not")
	}
	r.arc = ring.Arc{Start: ring.Key{2}, End: ring.Key{9}}
	late := asks
	asks = tick(300, 2, false)
	for _, ask := range late {
		s.Result(at(310), ask.ID, Nothing) // of another arc
	}
	tick(320, 0, false)
	r.departs = "b"
	s.Result(at(320), asks[1].ID, NotYet)
	tick(325, 0, false)
	r.ids = []peer.ID{"a", "c"} // b has left as it said, and its word is not needed
	s.Result(at(330), asks[0].ID, Nothing)
	asks = tick(340, 1, false)
	s.Result(at(350), asks[0].ID, Nothing)
	tick(350, 0, true)
	r.arc = large
	tick(360, 0, true) // less than before
	r.serves = false
	tick(400, 0, true)
	if s.All() || s.Settled(ring.Pos{7}) {
		t.Fatal("nothing is served, and nothing has settled")
	}
	r.serves = true
	tick(500, 2, false)
	tick(1400, 0, false)
	tick(1500, 0, true) // patience
	r.arc = ring.Arc{Start: ring.Key{1}, End: ring.Key{9}}
	asks = tick(2000, 2, false)
	s.Result(at(2010), asks[0].ID, Nothing)
	r.ids = []peer.ID{"a"} // c died before it answered
	tick(2020, 0, false)
	tick(2900, 0, false)
	tick(3000, 0, true)
}
