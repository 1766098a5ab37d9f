package dht_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht/dhttest"
	"github.com/apoidea/apoidea/dht/ring"
)

// grow returns a world with a settled ring of n peers, each joined through a random one before it.
func grow(t *testing.T, w dhttest.World, n int, gap time.Duration) *dhttest.Sim {
	t.Helper()
	s := dhttest.NewSim(w)
	rnd := rand.New(rand.NewPCG(w.Seed, 1))
	s.Add()
	for i := 1; i < n; i++ {
		s.Run(gap)
		s.Add(s.Nodes[rnd.IntN(i)])
	}
	settle(t, s, time.Minute)
	return s
}

// settle lets time pass, a second at a time, until the ring is right, and returns how long that took.
func settle(t *testing.T, s *dhttest.Sim, within time.Duration) time.Duration {
	t.Helper()
	begin := s.Now
	for s.Settled() != nil {
		if s.Now.Sub(begin) >= within {
			t.Fatalf("not settled after %v: %v", within, s.Settled())
		}
		s.Run(time.Second)
	}
	return s.Now.Sub(begin)
}

func randomKey(rnd *rand.Rand) ring.Key {
	return ring.KeyOf(binary.BigEndian.AppendUint64(nil, rnd.Uint64()))
}

func TestLeafSetsOfSmallRings(t *testing.T) {
	for n := 1; n <= 17; n++ {
		grow(t, dhttest.World{Seed: uint64(n)}, n, 300*time.Millisecond)
	}
}

func TestLookupsInARingOf32(t *testing.T) {
	s := grow(t, dhttest.World{Seed: 3}, 32, 200*time.Millisecond)
	s.Run(time.Minute)
	rnd := rand.New(rand.NewPCG(3, 3))
	wrong, calls := 0, 0
	for range 1000 {
		key := randomKey(rnd)
		found, err := s.Lookup(s.Nodes[rnd.IntN(32)], key)
		if err != nil || found.Owner.ID != s.Truth(key).Self().ID || !found.Serving {
			wrong++
		}
		calls += found.Calls
	}
	t.Logf("32 peers, 1000 keys: %d wrong, %.3f calls a lookup", wrong, float64(calls)/1000)
	if wrong > 0 || calls > 1100 {
		t.Errorf("%d wrong owners, %d calls for 1000 lookups", wrong, calls)
	}
}
