package model

import (
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"
)

var long = flag.Bool("long", false, "explore to greater depths, some minutes each")

// quiet is a world of some peers, at rest.
func quiet(t *testing.T, r rules, peers ...int) *world {
	t.Helper()
	if r.replicas == 0 {
		r.replicas = 3
	}
	w := newWorld(&r, 2)
	for _, i := range peers {
		w.start(i)
		w.drive(w.mine(i))
		if err := w.rest(); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// level is quiet with a URL that its owner acknowledged.
func level(t *testing.T, r rules, peers ...int) *world {
	t.Helper()
	w := quiet(t, r, peers...)
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
func leased(t *testing.T, r rules, peers ...int) *world {
	t.Helper()
	w := level(t, r, peers...)
	for range 100 {
		if k := w.workers[0]; k.lease() != nil && len(w.msgs) == 0 {
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
	near     = []kind{ship, ask, askReply, pull, pullReply, offer, push, pushReply, sessionCall, sessionReply}
	crawling = []kind{offer, sessionCall, sessionReply, ask, askReply}
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
		return leased(t, r, 0, 1).with(budget{time: 8, pauseWorker: 1, crashWorker: 1, lose: 1})
	}, rules{prompt: asIfNear}, 7, 12},
	{"an owner dies and returns", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1, 2).with(budget{time: 10, crash: 1, restart: 1})
	}, rules{prompt: asIfNear}, 6, 11},
	{"an owner pauses and is given up", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1, 2).with(budget{time: 12, pause: 1, suspect: 2})
	}, rules{prompt: asIfNear}, 6, 11},
	{"a peer returns with a new disk", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1, 2).with(budget{time: 12, wipe: 1, replace: 1, lose: 1})
	}, rules{prompt: asIfNear}, 6, 9},
	{"a peer joins", func(t *testing.T, r rules) *world {
		return leased(t, r, 1, 2).with(budget{time: 8, join: 1, lose: 1, post: 1})
	}, rules{prompt: besides, notes: true}, 6, 9},
	{"a peer joins, leases stay behind", func(t *testing.T, r rules) *world {
		return leased(t, r, 1, 2).with(budget{time: 8, join: 1})
	}, rules{prompt: asIfNear}, 6, 10},
	{"an owner leaves", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1, 2).with(budget{time: 8, leave: 1, lose: 1})
	}, rules{prompt: besides, notes: true}, 5, 9},
	{"disks are lost", func(t *testing.T, r rules) *world {
		return quiet(t, r, 0, 1, 2).with(budget{time: 6, post: 1, wipe: 2})
	}, rules{prompt: crawling}, 6, 10},
	{"a page is reported", func(t *testing.T, r rules) *world {
		w := leased(t, r, 0, 1)
		w.workers[0].fetch(w)
		return w.with(budget{time: 4, crash: 1})
	}, rules{prompt: crawling}, 6, 11},
	{"disks and messages are lost", func(t *testing.T, r rules) *world {
		return quiet(t, r, 0, 1, 2).with(budget{time: 6, post: 1, wipe: 1, lose: 2})
	}, rules{prompt: crawling, replicas: 2}, 6, 9},
	{"all go down and return", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1).with(budget{time: 6, crash: 2, restart: 2})
	}, rules{prompt: asIfNear}, 6, 11},
	{"a peer is taken for dead", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1, 2).with(budget{time: 10, doubt: 2})
	}, rules{prompt: asIfNear}, 5, 9},
	{"an owner dies and a peer joins in its arc", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 2, 3).with(budget{time: 4, crash: 1, join: 1})
	}, rules{prompt: near, notes: true}, 5, 9},
	{"a cut and its end", func(t *testing.T, r rules) *world {
		return leased(t, r, 0, 1, 2).with(budget{time: 10, doubt: 2, wipe: 1})
	}, rules{prompt: asIfNear, parted: true}, 4, 8},
}

func scenarioOf(t *testing.T, name string) scenario {
	t.Helper()
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		t.Fatalf("no scenario %q", name)
	}
	return scenarios[i]
}

// TestModel follows every row of steps from each beginning, and holds the invariants after each
// step, and the end of some rows at rest.
func TestModel(t *testing.T) {
	unraced(t)
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

// TestWalks goes down long rows of steps chosen at random, where everything may happen.
func TestWalks(t *testing.T) {
	walks := 40
	switch {
	case *long:
		walks = 100_000
	case os.Getenv("APOIDEA_FULL") != "":
		walks = 200
	}
	for _, s := range []struct {
		name  string
		peers []int
		rules rules
		left  budget // zero: that of crashes
	}{
		{"three peers and a newcomer", []int{1, 2, 3}, rules{notes: true}, budget{}},
		{"two peers and two newcomers", []int{1, 2}, rules{notes: true, replicas: 2}, budget{}},
		{"small pushes", []int{0, 1, 2}, rules{notes: true, part: 60}, budget{}},
		{"leases stay behind", []int{0, 2}, rules{}, budget{}},
		{"a disk is replaced", []int{0, 1, 2}, rules{notes: true}, budget{time: 30, lose: 6, wipe: 1, replace: 1, pause: 1, suspect: 2, pauseWorker: 1, post: 1}},
	} {
		t.Run(s.name, func(t *testing.T) {
			for seed := range walks {
				left := s.left
				if left == (budget{}) {
					left = budget{time: 30, lose: 6, crash: 2, restart: 3, pause: 2, pauseWorker: 1, crashWorker: 1, suspect: 3, doubt: 1, join: 1, leave: 1, post: 1}
				}
				begin := leased(t, s.rules, s.peers...).with(left)
				e := &explorer{begin: clone(begin)}
				if f := e.walk(rand.New(rand.NewPCG(uint64(seed), 7)), 80); f != nil {
					t.Fatalf("seed %d: %v", seed, shrink(begin, f))
				}
			}
		})
	}
}

// TestGuards takes one guard after the other out, and each time the model has to find what the
// guard is for.
func TestGuards(t *testing.T) {
	unraced(t)
	for _, g := range []struct {
		guard    string
		scenario string
		left     budget   // of what the scenario leaves; the zero budget: all
		first    []string // steps that are made before
		out      func(r *rules)
		breaks   string
	}{
		{guard: "a worker stops at its deadline", scenario: "a worker stops", left: budget{time: 4}, out: func(r *rules) { r.stubborn = true }, breaks: oneCrawler},
		{
			guard: "leases of a peer that nobody saw die are waited out", scenario: "an owner dies and a peer joins in its arc",
			left: budget{time: 1, crash: 1, join: 1}, first: []string{"0 crashes", "1 joins"},
			out: func(r *rules) { r.hasty = true }, breaks: oneCrawler,
		},
		{
			guard: "no host is granted before its records are here", scenario: "a peer joins", left: budget{time: 1, join: 1, post: 1}, first: []string{"0 joins"},
			out: func(r *rules) { r.unsettled = true }, breaks: oneCrawler,
		},
		{
			guard: "a dead peer's arc is fenced", scenario: "an owner pauses and is given up",
			out: func(r *rules) { r.greedy = true }, breaks: oneOwner,
		},
		{
			guard: "a peer that was paused serves nothing at first", scenario: "an owner pauses and is given up", left: budget{time: 4, pause: 1, suspect: 1},
			first: []string{"0 pauses"}, out: func(r *rules) { r.drowsy = true }, breaks: oneOwner,
		},
		{guard: "an answer waits for the replicas", scenario: "disks are lost", out: func(r *rules) { r.ackAlone = true }, breaks: nothingLost},
		{
			guard: "records are removed when they are elsewhere", scenario: "a peer joins", left: budget{join: 1, lose: 1},
			out: func(r *rules) { r.forgetful = true }, breaks: nothingLost,
		},
		{
			guard: "a peer with a new disk pulls before it ships", scenario: "a peer returns with a new disk",
			out: func(r *rules) { r.rash = true }, breaks: nothingLost,
		},
		{guard: "an outcome and its links are one entry", scenario: "a page is reported", out: func(r *rules) { r.split = true }, breaks: oneWrite},
	} {
		t.Run(g.guard, func(t *testing.T) {
			s := scenarioOf(t, g.scenario)
			r := s.rules
			g.out(&r)
			w := s.begin(t, r)
			if g.left != (budget{}) {
				w.left = g.left
			}
			w = after(w, g.first)
			for depth := 1; depth <= s.far; depth++ {
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

// TestDeposedOwnerAcknowledgesNothing: a replica that has taken the arc of its source over, which
// does not know, takes nothing more of it; else what the source acknowledges would lie where nobody
// looks for it once the source's disk is gone.
func TestDeposedOwnerAcknowledgesNothing(t *testing.T) {
	steps := []string{
		"1 gives up 0, which lives", "2s pass", "2s pass", "2s pass", "2s pass", "0 is given a URL", "deliver post reply 0->0 #0", "0 loses its disk",
	}
	for _, loyal := range []bool{false, true} {
		begin := quiet(t, rules{prompt: besides, parted: true, loyal: loyal}, 0, 1).with(budget{time: 5, doubt: 1, post: 1, wipe: 1})
		f := again(begin, steps)
		if lost := f != nil && f.rule == nothingLost; lost != loyal || f != nil && !loyal {
			t.Errorf("guard out %v: found %v", loyal, f)
		}
	}
}

// TestReplacedPeerPullsFirst: a peer whose disk was replaced, and which returns before anyone
// notices that it was away, pulls its records from its replicas before it ships anything. Without
// this rule range sync empties them.
func TestReplacedPeerPullsFirst(t *testing.T) {
	steps := []string{"0 loses its disk", "0 starts again with a new disk"}
	for _, rash := range []bool{false, true} {
		begin := leased(t, rules{prompt: besides, rash: rash}, 0, 1, 2).with(budget{wipe: 1, replace: 1})
		f := again(begin, steps)
		if lost := f != nil && f.rule == nothingLost; lost != rash || f != nil && !rash {
			t.Errorf("rule out %v: found %v", rash, f)
		}
	}
}

// TestStepsLeaveTheirBeginning: what happens to a copy does not happen to the world that it was
// copied from.
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
	w := leased(t, rules{}, 0, 1, 2)
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

// unraced leaves a test of state machines in virtual time, on one goroutine, to the run without the
// race detector: there is no race to find, and it would take ten times as long.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}
