package dht_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
)

// afterLast is the time after the last change from which no owner may be wrong.
const afterLast = 30 * time.Second

// neverTwice fails the test at the first step of the world at which two peers that do not stand
// apart serve one key.
func neverTwice(t *testing.T, s *dhtsim.Sim, apart func(i, j int) bool) {
	t.Helper()
	failed := false
	s.OnStep = func() {
		if !failed && overlaps(s, apart) > 0 {
			failed = true
			t.Errorf("a key is served twice at %v", s.Now().Format("15:04:05.000"))
		}
	}
}

// rightAtLast looks, once afterLast has passed, whether every peer serves its arc and every owner
// is found.
func rightAtLast(t *testing.T, s *dhtsim.Sim) {
	t.Helper()
	begin := s.Now()
	if took := s.RunUntil(afterLast, func() bool { return s.Settled() == nil }); !took {
		t.Fatalf("not settled %v after the last change: %v", afterLast, s.Settled())
	}
	t.Logf("settled %v after the last change", s.Now().Sub(begin).Round(100*time.Millisecond))
	s.Run(begin.Add(afterLast).Sub(s.Now()))
	checkLookups(t, s, "at last", 200)
}

// churnSeeds are the worlds in which each fault is tried.
const churnSeeds = 4

// inWorlds runs a scenario in worlds where the connections of the dead drop, and in worlds where
// they only fall silent.
func inWorlds(t *testing.T, name string, n int, scenario func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand)) {
	for _, row := range []struct {
		name   string
		silent bool
	}{{"connections drop", false}, {"silence", true}} {
		t.Run(name+"/"+row.name, func(t *testing.T) {
			for seed := range uint64(churnSeeds) {
				s := grow(t, dhtsim.World{Seed: seed, Silent: row.silent}, n, 200*time.Millisecond)
				s.Run(10 * time.Second)
				scenario(t, s, rand.New(rand.NewPCG(seed, 31)))
			}
		})
	}
}

// TestOneServesUnderFaults: at no step of the world is a key served by two, and no owner is wrong
// 30 s after the last change.
func TestOneServesUnderFaults(t *testing.T) {
	unraced(t)
	inWorlds(t, "one of 8 pauses for 30 s", 8, func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand) {
		neverTwice(t, s, nil)
		n := s.Nodes[rnd.IntN(8)]
		n.Pause(30 * time.Second)
		s.Run(29 * time.Second)
		if heir := s.Truth(n.Self().Key()); heir != n {
			t.Fatal("a paused peer is taken for dead by the test")
		}
		if !slices.ContainsFunc(s.Nodes, func(o *dhtsim.Node) bool { return o != n && o.Serves(n.Self().Key()) }) {
			t.Error("nobody took the arc of a peer that was stopped for 29 s")
		}
		s.Run(time.Second)
		rightAtLast(t, s)
	})
	inWorlds(t, "pauses of any length", 8, func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand) {
		neverTwice(t, s, nil)
		for range 8 {
			s.Nodes[rnd.IntN(8)].Pause(time.Duration(rnd.Int64N(int64(25 * time.Second))))
			s.Run(time.Duration(rnd.Int64N(int64(15 * time.Second))))
		}
		s.RunUntil(time.Minute, func() bool { return !slices.ContainsFunc(s.Nodes, (*dhtsim.Node).Paused) })
		rightAtLast(t, s)
	})
	inWorlds(t, "two neighbours of 8 die", 8, func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand) {
		neverTwice(t, s, nil)
		first := s.Nodes[rnd.IntN(8)]
		s.Kill(first)
		s.Kill(s.Truth(first.Peer.Key()))
		rightAtLast(t, s)
	})
	inWorlds(t, "a quarter of 16 is replaced", 16, func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand) {
		neverTwice(t, s, nil)
		for _, i := range rnd.Perm(16)[:4] {
			s.Kill(s.Nodes[i])
			s.Run(time.Duration(rnd.Int64N(int64(8 * time.Second))))
			living := s.Living()
			s.Add(living[rnd.IntN(len(living))])
			s.Run(time.Duration(rnd.Int64N(int64(8 * time.Second))))
		}
		rightAtLast(t, s)
	})
	inWorlds(t, "halves for a minute", 16, func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand) {
		half := make([]bool, 16)
		for _, i := range rnd.Perm(16)[:8] {
			half[i] = true
		}
		apart := func(i, j int) bool { return half[i] != half[j] }
		neverTwice(t, s, apart)
		s.Partition(apart)
		s.Run(time.Minute)
		if got := served(s); got < 1.99 || got > 2.01 {
			t.Errorf("two halves serve %.2f circles", got)
		}
		s.Partition(nil)
		rightAtLast(t, s)
	})
	inWorlds(t, "two apart for a minute", 2, func(t *testing.T, s *dhtsim.Sim, _ *rand.Rand) {
		apart := func(i, j int) bool { return i != j }
		s.Partition(apart)
		s.Run(time.Minute)
		s.Partition(nil)
		rightAtLast(t, s)
	})
	inWorlds(t, "all restart, one 10 s late", 8, func(t *testing.T, s *dhtsim.Sim, rnd *rand.Rand) {
		neverTwice(t, s, nil)
		memories := make([]*dht.Memory, len(s.Nodes))
		for i, n := range s.Nodes {
			memories[i] = n.Snapshot()
		}
		for _, n := range s.Nodes {
			s.Kill(n)
		}
		for at, i := range rnd.Perm(len(s.Nodes)) {
			delay := time.Duration(rnd.Int64N(int64(2 * time.Second)))
			if at == 0 {
				delay += 10 * time.Second
			}
			s.After(delay, func() { s.Restart(s.Nodes[i], memories[i]) })
		}
		s.Run(12 * time.Second)
		rightAtLast(t, s)
		for _, n := range s.Nodes {
			if n.Size() != len(s.Nodes) {
				t.Errorf("peer %d is in a ring of %d", n.Index, n.Size())
			}
		}
	})
}

// unraced leaves a test of state machines in virtual time, on one goroutine, to the run without the
// race detector: there is no race to find, and it would take ten times as long.
func unraced(t *testing.T) {
	t.Helper()
	if testing.Short() || os.Getenv("APOIDEA_FULL") == "" {
		t.Skip("slow: runs with scripts/check.sh --full")
	}
}
