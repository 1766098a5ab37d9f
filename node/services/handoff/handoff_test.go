package handoff

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// up lists the peers that run as members.
func (w *world) up() (list []*keep) {
	for _, p := range w.peers {
		if p.up && w.truth[p.id] == member {
			list = append(list, p)
		}
	}
	return list
}

// event has one thing happen to the ring. Disks are lost, up to r-1 at once, as long as one copy of
// each record is left; one peer always stays.
func (w *world) event() {
	list := w.up()
	p := w.peers[w.rnd.IntN(len(w.peers))]
	switch w.rnd.IntN(8) {
	case 0, 1:
		if !p.up {
			p.start()
		}
	case 2:
		if p.up && w.truth[p.id] == member && len(list) > 1 {
			w.truth[p.id], p.view[p.id] = leaving, leaving // it tells the others, as learnt later
			p.serves = false
			p.changes++
		}
	case 3:
		if p.up && len(list) > 1 && w.truth[p.id] == leaving && p.keeper.Clean() && !w.sends(p) {
			w.gone(p)
		}
	case 4:
		if p.up && len(list) > 1 {
			p.stop(true)
		}
	case 5:
		if p.up { // a false suspicion: it will learn better
			p.suspect(w.peers[w.rnd.IntN(len(w.peers))].id)
		}
	case 6:
		p.fails, p.sticky = w.rnd.IntN(3), w.rnd.IntN(2)
	case 7:
		w.rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		n := 1 + w.rnd.IntN(replicas-1)
		if len(list) > n && w.spared(list[:n]) {
			for _, p := range list[:n] {
				p.stop(false)
			}
		}
	}
}

// sends says whether a push of a peer is under way.
func (w *world) sends(p *keep) bool {
	return slices.ContainsFunc(w.fly, func(f *flight) bool { return f.from == p })
}

// gone is the end of a peer that handed over all: its followers forget it.
func (w *world) gone(p *keep) {
	if len(p.own) > 0 {
		w.t.Fatalf("%s leaves with %d records", p.id, len(p.own))
	}
	for _, f := range w.peers {
		if f.up {
			delete(f.copies, p.id)
		}
	}
	p.stop(false)
}

// TestNothingIsLost: peers join, leave, die, with their disks as long as one copy of each record is
// left, and return; pushes and answers get lost, doubled and late; views are old and change in
// mid-walk. What was acknowledged is with its owner in the end, nothing is removed before one other
// has all of it, and all comes to rest.
func TestNothingIsLost(t *testing.T) {
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	moved, settled := 0, 0
	for _, loss := range []float64{0, 0.1, 0.4} {
		for seed := range uint64(seeds) {
			t.Run(fmt.Sprintf("loss %v seed %d", loss, seed), func(t *testing.T) {
				w := newWorld(t, seed, 6, loss)
				for _, p := range w.peers[:1+w.rnd.IntN(5)] {
					p.start()
				}
				w.converge()
				for range 4 {
					for range 30 {
						w.write()
					}
					for range 6 {
						w.event()
						for range w.rnd.IntN(60) {
							w.step()
						}
					}
					for _, p := range w.peers {
						if !p.up && p.own != nil {
							p.start()
						}
					}
					w.converge()
					w.audit()
				}
				moved, settled = moved+w.moved, settled+w.settled
			})
		}
	}
	if moved == 0 || settled == 0 {
		t.Errorf("%d positions moved, %d arcs settled", moved, settled)
	}
}

// TestRollingLoss: every peer loses its disk in turn, one or two at a time with the ring level in
// between, and a fresh one takes its place.
func TestRollingLoss(t *testing.T) {
	for seed := range uint64(30) {
		w := newWorld(t, seed, 7, 0.2)
		for _, p := range w.peers[:5] {
			p.start()
		}
		w.converge()
		for range 60 {
			w.write()
		}
		for round := range 10 {
			for range 1 + w.rnd.IntN(replicas-1) {
				list := w.up()
				list[w.rnd.IntN(len(list))].stop(false)
			}
			for range w.rnd.IntN(100) {
				w.step()
			}
			for _, p := range w.peers {
				if !p.up && len(w.up()) < 5 {
					p.start()
				}
			}
			w.converge()
			w.audit()
			if len(w.acked) == 0 {
				t.Fatalf("round %d: nothing to lose", round)
			}
		}
	}
}

// TestFree looks for records in arcs that lead over the end of the circle or not, in own records
// and in copies that count.
func TestFree(t *testing.T) {
	w := newWorld(t, 1, 4, 0)
	list := w.clockwise()
	p, asker, dead, goes := list[0], list[1], list[2], list[3]
	p.start()
	p.view[goes.id] = leaving
	at := func(first byte) ring.Pos { return ring.Pos{first} }
	put := func(s shelf, pos ring.Pos) { s.merge(string(pos[:])+"\x00", "version1") }
	end := asker.key[0]
	arc := ring.Arc{Start: ring.Key{end - 1}, End: asker.key}
	over := ring.Arc{Start: ring.Key{end + 2}, End: asker.key}
	for _, c := range []struct {
		name string
		put  func()
		arc  ring.Arc
		want bool
	}{
		{"nothing", func() {}, arc, false},
		{"own in front", func() { put(p.own, at(end-2)) }, arc, false},
		{"own behind", func() { put(p.own, at(end+1)) }, arc, false},
		{"own within", func() { put(p.own, at(end)) }, arc, true},
		{"own within, over the end", func() { put(p.own, at(0)) }, over, true},
		{"own outside, over the end", func() { put(p.own, at(end+1)) }, over, false},
		{"copy of the asker", func() { p.copies[asker.id] = make(shelf); put(p.copies[asker.id], at(end)) }, arc, false},
		{"copy of one that leaves", func() { p.copies[goes.id] = make(shelf); put(p.copies[goes.id], at(end)) }, arc, false},
		{"copy of one that is dead", func() { p.copies[dead.id] = make(shelf); put(p.copies[dead.id], at(end)) }, arc, true},
	} {
		p.own, p.copies = make(shelf), make(map[peer.ID]shelf)
		c.put()
		if got, err := p.keeper.holds(c.arc); got != c.want || err != nil {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

// TestLargePositionMovesWhole: a position of many parts is removed only when all of them have
// arrived, and a failure in the middle begins anew.
func TestLargePositionMovesWhole(t *testing.T) {
	w := newWorld(t, 1, 2, 0)
	a, b := w.peers[0], w.peers[1]
	a.start()
	w.converge()
	var pos ring.Pos
	for i := range 256 { // one that will be b's
		pos = ring.Pos{byte(i)}
		b.view = map[peer.ID]standing{a.id: member, b.id: member}
		if owner, _ := b.Owner(pos); owner == b.id {
			break
		}
	}
	for s := range 40 {
		a.own.merge(string(pos[:])+string([]byte{byte(s)}), "version1"+string(make([]byte, 30)))
	}
	b.start()
	a.learn(b.id)
	b.learn(a.id)
	b.grow()
	pushes := 0
	for range 200 {
		a.tick()
		if len(w.fly) > 0 && w.fly[0].call.ID > 0 {
			pushes++
			if pushes == 5 {
				w.fly[0].failed, w.fly[0].done = errNet, true
			}
			if pushes == 10 { // in mid-position the owner changes a record that went out already; nothing is removed
				a.own.merge(string(pos[:])+"\x00", "version2")
			}
		}
		if len(a.own) > 0 && len(a.own) < 40 {
			t.Fatalf("a part of the position was removed: %d of 40 left", len(a.own))
		}
		w.deliver()
		w.deliver()
		w.now = w.now.Add(100e6)
	}
	if len(a.own) > 0 || len(b.own) != 40 || b.own[string(pos[:])+"\x00"] != "version2" {
		t.Errorf("%d records stayed, %d arrived", len(a.own), len(b.own))
	}
	if pushes < 40/2 {
		t.Errorf("%d pushes", pushes)
	}
}

// TestRefusedPushIsSmallAtFirst: a peer that does not serve yet what comes into its arc is tried
// with one position at a time, and sent all once it takes that.
func TestRefusedPushIsSmallAtFirst(t *testing.T) {
	w := newWorld(t, 1, 3, 0)
	a, b, dead := w.peers[0], w.peers[1], w.peers[2]
	a.start()
	b.start()
	a.learn(b.id)
	a.keeper = NewKeeper(Config{}, a.id, space{a}, copiesOf{a}, a)
	copied := make(shelf)
	a.copies[dead.id] = copied
	for i := range 256 {
		pos := ring.Pos{byte(i)}
		if to, _ := a.Owner(pos); to == b.id {
			copied.merge(string(pos[:])+"\x00", "version1")
		}
	}
	push := func(failed error) int {
		for range 100 {
			w.now = w.now.Add(time.Second)
			r, err := a.keeper.Tick(w.now)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Calls) == 0 {
				continue
			}
			if _, err := a.keeper.Result(r.Calls[0].ID, failed); err != nil {
				t.Fatal(err)
			}
			return len(r.Calls[0].Push.Records)
		}
		t.Fatal("nothing is pushed")
		return 0
	}
	first, again, taken, rest := push(errNet), push(errNet), push(nil), push(nil)
	if first < 10 || again != 1 || taken != 1 || rest < first-2 {
		t.Errorf("pushes of %d, after a refusal %d and %d, after that was taken %d", first, again, taken, rest)
	}
}

// TestManyPositionsGoInPieces: who has pushed many positions removes them some at a time, so that
// others of the state machine have their turn, and goes on when they are gone.
func TestManyPositionsGoInPieces(t *testing.T) {
	w := newWorld(t, 1, 2, 0)
	a, b := w.peers[0], w.peers[1]
	a.start()
	b.start()
	a.learn(b.id)
	a.keeper = NewKeeper(Config{}, a.id, space{a}, copiesOf{a}, a)
	n := 0
	for i := range 1024 {
		pos := ring.Pos{byte(i), byte(i >> 8)}
		if to, _ := a.Owner(pos); to == b.id {
			a.own.merge(string(pos[:])+"\x00", "version1")
			n++
		}
	}
	if n < 3*removedAtOnce {
		t.Fatalf("%d positions of the other peer", n)
	}
	w.now = w.now.Add(time.Minute)
	for len(a.own) > 0 {
		before := len(a.own)
		r, err := a.keeper.Tick(w.now)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range r.Calls {
			for _, rec := range call.Push.Records {
				b.own.merge(string(rec.Key), string(rec.Value))
			}
			if _, err := a.keeper.Result(call.ID, nil); err != nil {
				t.Fatal(err)
			}
		}
		if gone := before - len(a.own); gone > removedAtOnce {
			t.Fatalf("%d positions were removed at once", gone)
		} else if gone == 0 && len(r.Calls) == 0 {
			t.Fatalf("nothing moves, %d positions are left", len(a.own))
		}
		if a.keeper.Clean() && len(a.own) > 0 {
			t.Fatalf("clean with %d positions", len(a.own))
		}
	}
	for range 10 {
		if _, err := a.keeper.Tick(w.now); err != nil {
			t.Fatal(err)
		}
	}
	if !a.keeper.Clean() || a.keeper.moved != int64(n) {
		t.Errorf("clean: %v, %d positions of %d moved", a.keeper.Clean(), a.keeper.moved, n)
	}
}
