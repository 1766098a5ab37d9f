package dht_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
)

// The figures that the design promises, in virtual time.

// TestJoinServesWithin: a newcomer to a ring of 16 serves within 5 s of its start, whichever entry
// it knows.
func TestJoinServesWithin(t *testing.T) {
	unraced(t)
	const within = 5 * time.Second
	longest := time.Duration(0)
	for seed := range uint64(8) {
		s := grow(t, dhtsim.World{Seed: seed}, 16, 200*time.Millisecond)
		s.Run(30 * time.Second)
		rnd := rand.New(rand.NewPCG(seed, 41))
		for range 4 {
			begin := s.Now()
			n := s.Add(s.Nodes[rnd.IntN(16)])
			if !s.RunUntil(within, func() bool { return n.State() == dht.Serving }) {
				t.Errorf("seed %d: %s after %v", seed, n.State(), within)
			}
			longest = max(longest, s.Now().Sub(begin))
			s.Run(10 * time.Second)
		}
	}
	t.Logf("32 joins of a ring of 16 to 19: serving after %v at most", longest.Round(time.Millisecond))
}

// TestTakeOverWithin: the arc of a dead peer is served by its heir when its leases have ended, soon
// after where its connections drop, and where it only falls silent as soon as that can be told from
// a slow answer.
func TestTakeOverWithin(t *testing.T) {
	unraced(t)
	ttl := dht.DefaultConfig().TakeOver
	for _, row := range []struct {
		name   string
		silent bool
		within time.Duration
	}{
		{"connections drop", false, 12 * time.Second},
		{"silence", true, 13 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			longest := time.Duration(0)
			for seed := range uint64(4) {
				s := grow(t, dhtsim.World{Seed: seed, Silent: row.silent}, 24, 200*time.Millisecond)
				for i := range 8 {
					s.Run(30 * time.Second)
					begin := s.Now()
					key := s.Nodes[3*i].Self().Key()
					s.Kill(s.Nodes[3*i])
					if !s.RunUntil(row.within, func() bool { return s.Truth(key).Serves(key) }) {
						t.Errorf("seed %d: nobody serves the arc of a dead peer after %v", seed, row.within)
					}
					if took := s.Now().Sub(begin); took < ttl {
						t.Errorf("seed %d: served after %v, while its leases last %v", seed, took, ttl)
					}
					longest = max(longest, s.Now().Sub(begin))
				}
			}
			t.Logf("32 deaths in rings of 24 to 17: served again after %v at most", longest.Round(time.Millisecond))
		})
	}
}

// TestQuietRingSaysLittle: neighbours that hold each other's lists leave them out, and say them
// again to whoever was restarted and holds none.
func TestQuietRingSaysLittle(t *testing.T) {
	unraced(t)
	s := grow(t, dhtsim.World{Seed: 5}, 32, 200*time.Millisecond)
	s.Run(2 * time.Minute)
	quiet := func(what string) {
		t.Helper()
		before := s.Sent[dhtsim.Upkeep].Bytes
		s.Run(time.Minute)
		rate := float64(s.Sent[dhtsim.Upkeep].Bytes-before) / 60 / 32
		t.Logf("%s: %.0f B/s a peer", what, rate)
		if rate > 400 { // with their lists 3 kB/s
			t.Errorf("%s: %.0f B/s a peer", what, rate)
		}
	}
	quiet("settled")
	for _, n := range s.Nodes[:4] {
		memory := n.Snapshot()
		s.Kill(n)
		s.Run(2 * time.Second)
		s.Restart(n, memory)
	}
	settle(t, s, time.Minute)
	for _, n := range s.Nodes[:4] {
		if preds, succs := n.Leaves(); len(preds) != 8 || len(succs) != 8 {
			t.Errorf("a restarted peer knows %d and %d neighbours, want 8 and 8", len(preds), len(succs))
		}
	}
	s.Run(2 * time.Minute)
	quiet("after four restarts")
}
