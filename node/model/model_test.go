package model

import (
	"flag"
	"slices"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "explore to greater depths, some minutes each")

// quiet is a world of n peers from the first on, at rest.
func quiet(t *testing.T, r rules, first, n int) *world {
	t.Helper()
	if r.replicas == 0 {
		r.replicas = 3
	}
	w := newWorld(&r, 2)
	for i := first; i < first+n; i++ {
		w.start(i)
		w.drive(w.mine(i))
		if err := w.rest(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// level is quiet with a URL that its owner acknowledged.
func level(t *testing.T, r rules, first, n int) *world {
	t.Helper()
	w := quiet(t, r, first, n)
	w.post(w.mine(w.owners()[0]))
	for len(w.msgs) > 0 && len(w.acked) == 0 {
		w.deliver(0)
	}
	if len(w.acked) == 0 {
		t.Fatalf("the URL is not acknowledged; %v", w.msgs)
	}
	w.rush()
	return w
}

// leased is level with a lease on the host at the first worker, which has yet to fetch its page.
func leased(t *testing.T, r rules, first, n int) *world {
	t.Helper()
	w := level(t, r, first, n)
	for range 100 {
		if k := w.workers[0]; k.lease != nil && len(w.msgs) == 0 {
			return w
		} else if owner := w.owners()[0]; k.speaks(w, owner) {
			k.say(w, owner)
		}
		for len(w.msgs) > 0 {
			w.deliver(0)
		}
	}
	t.Fatal("no lease")
	return nil
}

func (w *world) with(b budget) *world {
	w.left = b
	return w
}

// What arrives at once in a scenario that is not about it.
var (
	asIfNear = []kind{ship, ask, askReply, offer}
	besides  = []kind{ship, offer}
	crawling = []kind{offer, session, sessionReply, ask, askReply}
)

// scenario is a beginning and what may go wrong from there on.
type scenario struct {
	name  string
	begin func(t *testing.T, r rules) *world
	rules rules
	// depth is how many steps are explored, far with -long.
	depth, far int
}

var scenarios = []scenario{
	{"a worker stops", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 2).with(budget{time: 8, pauseWorker: 1, crashWorker: 1, lose: 1})
	}, rules{prompt: asIfNear}, 7, 12},
	{"an owner dies and returns", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 3).with(budget{time: 10, crash: 1, restart: 1})
	}, rules{prompt: asIfNear}, 7, 12},
	{"an owner pauses and is given up", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 3).with(budget{time: 12, pause: 1, suspect: 2})
	}, rules{prompt: asIfNear}, 7, 11},
	{"a peer joins", func(t *testing.T, r rules) *world {
		return leased(t, r, 1, 2).with(budget{time: 8, join: 1, lose: 1, post: 1})
	}, rules{prompt: besides, notes: true}, 6, 10},
	{"a peer joins, leases stay behind", func(t *testing.T, r rules) *world {
		return leased(t, r, 1, 2).with(budget{time: 8, join: 1})
	}, rules{prompt: asIfNear}, 7, 12},
	{"an owner leaves", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 3).with(budget{time: 8, leave: 1, lose: 1})
	}, rules{prompt: besides, notes: true}, 6, 10},
	{"disks are lost", func(t *testing.T, r rules) *world {
		return quiet(t, r, 0, 3).with(budget{time: 6, post: 1, wipe: 2})
	}, rules{prompt: crawling}, 7, 12},
	{"disks and messages are lost", func(t *testing.T, r rules) *world {
		return quiet(t, r, 0, 3).with(budget{time: 6, post: 1, wipe: 1, lose: 2})
	}, rules{prompt: crawling, replicas: 2}, 6, 10},
	{"all go down and return", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 2).with(budget{time: 6, crash: 2, restart: 2})
	}, rules{prompt: asIfNear}, 7, 12},
	{"a peer is taken for dead", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 3).with(budget{time: 10, doubt: 2})
	}, rules{prompt: asIfNear}, 6, 10},
	{"a cut and its end", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 3).with(budget{time: 10, doubt: 2, wipe: 1})
	}, rules{prompt: asIfNear, parted: true}, 5, 10},
}

func scenarioOf(t *testing.T, name string) scenario {
	t.Helper()
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no scenario %q", name)
	}
	return scenarios[i]
}

// TestModel follows every row of steps from each beginning, and holds the invariants after each step, and the end of some rows at rest.
func TestModel(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			e := &explorer{begin: s.begin(t, s.rules), depth: s.depth, limit: 1 << 30, ends: 10}
			if *long {
				e.depth, e.until = s.far, time.Now().Add(10*time.Minute)
			}
			if f := e.explore(); f != nil {
				t.Errorf("%v", f)
			}
			t.Logf("depth %d: %d worlds, %d ends, cut short %v", e.depth, e.worlds, e.leaves, e.cut)
		})
	}
}

// TestGuards takes one guard after the other out, and each time the model has to find what the guard is for.
func TestGuards(t *testing.T) {
	for _, g := range []struct {
		guard    string
		scenario string
		left     budget // of what the scenario leaves; the zero budget: all
		out      func(r *rules)
		breaks   string
	}{
		{"a worker stops at its deadline", "a worker stops", budget{}, func(r *rules) { r.stubborn = true }, oneCrawler},
		{"leases of records taken over are waited out", "a peer joins, leases stay behind", budget{time: 3, join: 1}, func(r *rules) { r.hasty = true }, oneCrawler},
		{"no host is granted before its records are here", "a peer joins", budget{time: 1, join: 1, post: 1}, func(r *rules) { r.unsettled = true }, oneCrawler},
		{"a dead peer's arc is fenced", "an owner pauses and is given up", budget{}, func(r *rules) { r.greedy = true }, oneOwner},
		{"a peer that was paused serves nothing at first", "an owner pauses and is given up", budget{time: 4, pause: 1, suspect: 1}, func(r *rules) { r.drowsy = true }, oneOwner},
		{"an answer waits for the replicas", "disks are lost", budget{}, func(r *rules) { r.ackAlone = true }, nothingLost},
		{"records are removed when they are elsewhere", "a peer joins", budget{time: 1, join: 1, lose: 1}, func(r *rules) { r.forgetful = true }, nothingLost},
		{"an outcome and its links are one entry", "disks are lost", budget{}, func(r *rules) { r.split = true }, oneWrite},
	} {
		t.Run(g.guard, func(t *testing.T) {
			s := scenarioOf(t, g.scenario)
			r := s.rules
			g.out(&r)
			for depth := 1; depth <= s.far; depth++ {
				w := s.begin(t, r)
				if g.left != (budget{}) {
					w.left = g.left
				}
				e := &explorer{begin: w, depth: depth, limit: 40_000, ends: 10}
				f := e.explore()
				if f == nil && !e.cut {
					continue
				}
				if f == nil || f.rule != g.breaks {
					t.Fatalf("depth %d, %d worlds: found %v, want %q broken", depth, e.worlds, f, g.breaks)
				}
				t.Logf("%d worlds: %v", e.worlds, f)
				return
			}
			t.Fatal("nothing found")
		})
	}
}

// TestStepsLeaveTheirBeginning: what happens to a copy does not happen to the world that it was copied from.
func TestStepsLeaveTheirBeginning(t *testing.T) {
	for _, s := range scenarios {
		w := s.begin(t, s.rules)
		before := fingerprint(deep(w))
		for range 12 {
			list := w.choices()
			for _, c := range list {
				current = clone(w)
				c.do(current)
				current.rush()
				fresh := *w
				fresh.peers = deep(w.peers)
				for _, p := range fresh.peers {
					p.print = 0
				}
				if fingerprint(&fresh) != before {
					t.Fatalf("%s: %q reached back", s.name, c.name)
				}
			}
			w = clone(w)
			current = w
			list[len(list)/2].do(w)
			before = fingerprint(w)
		}
	}
}

// TestClone: a world is copied whole, or what the explorer finds is of worlds that never were.
func TestClone(t *testing.T) {
	w := leased(t, rules{}, 0, 3)
	a := fingerprint(w)
	c := clone(w)
	if b := fingerprint(c); a != b {
		t.Fatal("a copy is another world")
	}
	current = c
	if err := c.rest(); err != nil {
		t.Fatal(err)
	}
	if b := fingerprint(w); a != b {
		t.Fatal("what happened to the copy happened to the world")
	}
	if fingerprint(c) == a {
		t.Fatal("nothing happened to the copy")
	}
	if !slices.Contains(c.acked, "outcome of "+urls[1]) {
		t.Fatalf("the copy crawled %v", c.acked)
	}
}
