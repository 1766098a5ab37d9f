package dht_test

import (
	"encoding/binary"
	"flag"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
)

var long = flag.Bool("long", false, "also run the simulations of 1,000 and 10,000 peers")

// grow returns a world with a settled ring of n peers, each joined through a random one before it.
func grow(t *testing.T, w dhtsim.World, n int, gap time.Duration) *dhtsim.Sim {
	t.Helper()
	unraced(t)
	s := dhtsim.NewSim(w)
	rnd := rand.New(rand.NewPCG(w.Seed, 1))
	s.Add()
	for i := 1; i < n; i++ {
		s.Run(gap)
		s.Add(s.Nodes[rnd.IntN(i)])
	}
	settle(t, s, time.Minute)
	return s
}

// settle lets time pass, a second at a time, until the ring is right, and returns how long that
// took.
func settle(t *testing.T, s *dhtsim.Sim, within time.Duration) time.Duration {
	t.Helper()
	begin := s.Now()
	for s.Settled() != nil {
		if s.Now().Sub(begin) >= within {
			t.Fatalf("not settled after %v: %v", within, s.Settled())
		}
		s.Run(time.Second)
	}
	return s.Now().Sub(begin)
}

func randomKey(rnd *rand.Rand) ring.Key {
	return ring.KeyOf(binary.BigEndian.AppendUint64(nil, rnd.Uint64()))
}

func TestLeafSetsOfSmallRings(t *testing.T) {
	for n := 1; n <= 17; n++ {
		grow(t, dhtsim.World{Seed: uint64(n)}, n, 300*time.Millisecond)
	}
}

func TestLookupsInARingOf32(t *testing.T) {
	s := grow(t, dhtsim.World{Seed: 3}, 32, 200*time.Millisecond)
	s.Run(time.Minute)
	rnd := rand.New(rand.NewPCG(3, 3))
	wrong, calls := 0, 0
	for range 1000 {
		key := randomKey(rnd)
		found, err := lookupFrom(s, s.Nodes[rnd.IntN(32)], key)
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

// lookupFrom searches the owner of key from n, and advances the clock until it is found.
func lookupFrom(s *dhtsim.Sim, n *dhtsim.Node, key ring.Key) (found dht.Lookup, err error) {
	done := false
	n.Lookup(key, func(f dht.Lookup, e error) { found, err, done = f, e, true })
	if !done && !s.RunUntil(time.Minute, func() bool { return done }) {
		return found, dhtsim.ErrTimeout
	}
	return found, err
}

// checkLookups searches keys from random peers and fails on any wrong owner.
func checkLookups(t *testing.T, s *dhtsim.Sim, what string, keys int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(8, 8))
	living := s.Living()
	wrong, calls := 0, 0
	for range keys {
		key := randomKey(rnd)
		found, err := lookupFrom(s, living[rnd.IntN(len(living))], key)
		if err != nil || found.Owner.ID != s.Truth(key).Self().ID {
			wrong++
		}
		calls += found.Calls
	}
	t.Logf("%s: %d of %d owners wrong, %.2f calls a lookup", what, wrong, keys, float64(calls)/float64(keys))
	if wrong > 0 {
		t.Errorf("%s: %d owners wrong", what, wrong)
	}
}

func killATenth(t *testing.T, n int, gap time.Duration) {
	s := grow(t, dhtsim.World{Seed: 4}, n, gap)
	checkLookups(t, s, "before", 300)
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, i := range rnd.Perm(n)[:n/10] {
		s.Kill(s.Nodes[i])
	}
	t.Logf("settled %v after %d of %d died", settle(t, s, 30*time.Second), n/10, n)
	checkLookups(t, s, "after", 300)
}

func TestTenthOf200Killed(t *testing.T) {
	unraced(t)
	if raceEnabled {
		t.Skip("a simulation has one goroutine, and the detector makes it slow")
	}
	killATenth(t, 200, 20*time.Millisecond)
}

func TestTenthOf1000Killed(t *testing.T) {
	if !*long {
		t.Skip("30 s of CPU: run with -long")
	}
	killATenth(t, 1000, 20*time.Millisecond)
}

func TestTenThousandPeers(t *testing.T) {
	if !*long {
		t.Skip("minutes of CPU: run with -long")
	}
	killATenth(t, 10000, 5*time.Millisecond)
}

// TestSilentDeaths: nobody's connection drops, and the dead answer nothing.
func TestSilentDeaths(t *testing.T) {
	unraced(t)
	s := grow(t, dhtsim.World{Seed: 5, Silent: true}, 64, 100*time.Millisecond)
	s.Run(time.Minute)
	for i := range 6 {
		s.Kill(s.Nodes[10*i])
	}
	t.Logf("settled %v after 6 of 64 fell silent", settle(t, s, time.Minute))
}

// overlapWatch counts moments at which two peers serve one key, and for how long.
type overlapWatch struct {
	since  time.Time
	total  time.Duration
	worst  int
	events int
}

// overlaps counts the pairs of peers that serve a common key, except pairs that apart excludes; a
// nil apart counts all.
func overlaps(s *dhtsim.Sim, apart func(i, j int) bool) int {
	type server struct {
		arc   ring.Arc
		index int
	}
	var arcs []server
	for _, n := range s.Nodes {
		if arc, serves := s.Arc(n); serves {
			arcs = append(arcs, server{arc, n.Index})
		}
	}
	slices.SortFunc(arcs, func(a, b server) int { return a.arc.End.Compare(b.arc.End) })
	pairs := 0
	for i, it := range arcs {
		// Arcs that end inside this one, going back from its end, overlap it.
		for d := 1; d < len(arcs); d++ {
			before := arcs[(i-d+len(arcs))%len(arcs)]
			if before.arc.End == it.arc.Start || !it.arc.Contains(before.arc.End) {
				break
			}
			if apart == nil || !apart(it.index, before.index) {
				pairs++
			}
		}
	}
	return pairs
}

// served returns the total of the arcs served by live peers; keys served twice count twice.
func served(s *dhtsim.Sim) float64 {
	share := 0.0
	for _, n := range s.Living() {
		if arc, serves := s.Arc(n); serves {
			share += arc.Fraction()
		}
	}
	return share
}

func watchOverlaps(s *dhtsim.Sim) *overlapWatch {
	w := &overlapWatch{}
	s.OnEvent = func(_ *dhtsim.Node, e dht.Event) {
		if _, ok := e.(dht.ArcChanged); !ok {
			return
		}
		pairs := overlaps(s, nil)
		w.worst = max(w.worst, pairs)
		switch {
		case pairs > 0 && w.since.IsZero():
			w.since = s.Now()
			w.events++
		case pairs == 0 && !w.since.IsZero():
			w.total += s.Now().Sub(w.since)
			w.since = time.Time{}
		}
	}
	return w
}

func (w *overlapWatch) none(t *testing.T) {
	t.Helper()
	if w.events > 0 {
		t.Errorf("keys were served twice %d times, %v in all, %d pairs at worst", w.events, w.total, w.worst)
	}
}

func TestNoKeyIsServedTwiceWhilePeersJoin(t *testing.T) {
	unraced(t)
	if raceEnabled {
		t.Skip("a simulation has one goroutine, and the detector makes it slow")
	}
	for _, row := range []struct {
		name  string
		peers int
		gap   time.Duration
		entry func(i int, rnd *rand.Rand) int
	}{
		{"one by one", 48, 4 * time.Second, func(i int, rnd *rand.Rand) int { return rnd.IntN(i) }},
		{"before the last has settled", 64, 300 * time.Millisecond, func(i int, rnd *rand.Rand) int { return rnd.IntN(i) }},
		{"storm of 128 through one entry", 128, 0, func(int, *rand.Rand) int { return 0 }},
	} {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(2) {
				s := dhtsim.NewSim(dhtsim.World{Seed: seed})
				rnd := rand.New(rand.NewPCG(seed, 9))
				w := watchOverlaps(s)
				s.Add()
				s.Run(time.Second)
				for i := 1; i < row.peers; i++ {
					s.Add(s.Nodes[row.entry(i, rnd)])
					s.Run(row.gap)
				}
				took := settle(t, s, time.Minute)
				t.Logf("seed %d: %d peers settled %v after the last, %d calls a peer", seed, row.peers, took, s.Sent[dhtsim.Upkeep].Calls/int64(row.peers))
				w.none(t)
			}
		})
	}
}

func TestNoKeyIsServedTwiceWhenANeighbourDies(t *testing.T) {
	for seed := range uint64(4) {
		s := grow(t, dhtsim.World{Seed: seed}, 24, 200*time.Millisecond)
		w := watchOverlaps(s)
		for i := range 8 {
			victim := s.Nodes[3*i]
			key := victim.Self().Key()
			s.Kill(victim)
			s.Run(7 * time.Second)
			if heir := s.Truth(key); heir.Serves(key) {
				t.Errorf("seed %d: the keys of a dead peer are served before its leases have ended", seed)
			}
			settle(t, s, 20*time.Second)
		}
		w.none(t)
	}
}

// TestSuspendedPeerServesNothing: a peer that was stopped for half a minute finds its arc taken,
// and must not serve it for a moment.
func TestSuspendedPeerServesNothing(t *testing.T) {
	for seed := range uint64(4) {
		s := grow(t, dhtsim.World{Seed: seed}, 24, 200*time.Millisecond)
		w := watchOverlaps(s)
		n := s.Nodes[7]
		key := n.Self().Key()
		n.Pause(30 * time.Second)
		s.Run(29 * time.Second)
		served := false
		for _, other := range s.Living() {
			served = served || other != n && other.Serves(key)
		}
		if !served {
			t.Errorf("seed %d: nobody took the arc of a peer that was stopped for 29 s", seed)
		}
		s.Run(2 * time.Second)
		settle(t, s, 40*time.Second)
		w.none(t)
	}
}

func TestSeparateRingsMerge(t *testing.T) {
	networks := 2
	s := dhtsim.NewSim(dhtsim.World{Seed: 6, Ring: func(i int) int { return i % networks }})
	s.Add()
	s.Add()
	for i := 2; i < 40; i++ {
		s.Run(300 * time.Millisecond)
		s.Add(s.Nodes[i%2])
	}
	s.Run(20 * time.Second)
	if got := served(s); got < 1.99 || got > 2.01 {
		t.Fatalf("two rings serve %.2f circles", got)
	}
	networks = 1
	s.Nodes[0].Meet(s.Nodes[1])
	t.Logf("one ring of two after %v", settle(t, s, 90*time.Second))
	checkLookups(t, s, "merged", 200)
}

func TestPartitionHeals(t *testing.T) {
	s := grow(t, dhtsim.World{Seed: 7, Silent: true}, 32, 200*time.Millisecond)
	s.Partition(func(i, j int) bool { return i%2 != j%2 })
	s.Run(2 * time.Minute)
	if got := served(s); got < 1.99 || got > 2.01 {
		t.Errorf("the two parts serve %.2f circles", got)
	}
	s.Partition(nil)
	t.Logf("one ring %v after the heal", settle(t, s, 2*time.Minute))
}

// TestLossRarelyKills: a twentieth of the messages is lost for good, which no real transport does,
// and of the suspicions that brings hardly one ends with a living peer given up. The ring is whole
// again after each.
func TestLossRarelyKills(t *testing.T) {
	unraced(t)
	s := grow(t, dhtsim.World{Seed: 8, Silent: true, Loss: 0.05}, 32, 500*time.Millisecond)
	dead, suspect := 0, 0
	s.OnEvent = func(_ *dhtsim.Node, e dht.Event) {
		switch e.(type) {
		case dht.PeerDead:
			dead++
		case dht.PeerSuspect:
			suspect++
		}
	}
	s.Run(10 * time.Minute)
	t.Logf("10 minutes of 32 peers with 5 %% loss: %d suspicions, %d false deaths", suspect, dead)
	if 200*dead > suspect {
		t.Errorf("%d living peers were given up", dead)
	}
	settle(t, s, time.Minute)
}

func TestLeavingPeersAreReplacedAtOnce(t *testing.T) {
	s := grow(t, dhtsim.World{Seed: 9}, 16, 200*time.Millisecond)
	w := watchOverlaps(s)
	for _, n := range s.Nodes[3:9] {
		s.Leave(n)
		s.Run(1500 * time.Millisecond)
		if got := served(s); got < 0.999999 {
			t.Errorf("%.4f of the circle is served after a farewell", got)
		}
	}
	settle(t, s, 10*time.Second)
	w.none(t)
}

// TestRestartOfAll: every peer is killed at one moment and comes back in random order. Until the
// grace is over nobody serves a key that was another's, and no key is served twice.
func TestRestartOfAll(t *testing.T) {
	unraced(t)
	for _, row := range []struct {
		name           string
		n, missing     int
		spread, within time.Duration
	}{
		{"32 within 15 s", 32, 0, 15 * time.Second, 15 * time.Second},
		{"2 at once", 2, 0, 0, 10 * time.Second},
		{"8 within a second", 8, 0, time.Second, 10 * time.Second},
		{"32, three of which never return", 32, 3, 10 * time.Second, 60 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(4) {
				s := grow(t, dhtsim.World{Seed: seed}, row.n, 200*time.Millisecond)
				s.Run(10 * time.Second)
				memories, arcs := make([]*dht.Memory, row.n), make([]ring.Arc, row.n)
				for i, n := range s.Nodes {
					memories[i] = n.Snapshot()
					arcs[i], _ = n.Arc()
				}
				for _, n := range s.Nodes {
					s.Kill(n)
				}
				w := watchOverlaps(s)
				overlaps, begin := s.OnEvent, s.Now()
				s.OnEvent = func(n *dhtsim.Node, e dht.Event) {
					overlaps(n, e)
					if a, ok := e.(dht.ArcChanged); ok && a.Has && s.Now().Sub(begin) < 20*time.Second && !arcs[n.Index].Holds(a.New) {
						t.Errorf("seed %d: peer %d serves a foreign arc %v after the restart", seed, n.Index, s.Now().Sub(begin))
					}
				}
				rnd := rand.New(rand.NewPCG(seed, 12))
				for _, i := range rnd.Perm(row.n)[row.missing:] {
					n := s.Nodes[i]
					s.After(time.Duration(rnd.Int64N(int64(row.spread)+1)), func() { s.Restart(n, memories[n.Index]) })
				}
				s.Run(row.spread + time.Second)
				t.Logf("seed %d: settled %v after the last came back", seed, settle(t, s, row.within)+time.Second)
				w.none(t)
			}
		})
	}
}

func TestRestartAlone(t *testing.T) {
	for _, row := range []struct {
		name   string
		alone  bool
		found  bool
		serves bool
	}{
		{"was alone", true, false, true},
		{"had neighbours", false, false, false},
		{"had neighbours, told to go on", false, true, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := dhtsim.NewSim(dhtsim.World{Seed: 10})
			first := s.Add()
			if !row.alone {
				s.Add(first)
			}
			settle(t, s, time.Minute)
			memory := first.Snapshot()
			for _, n := range s.Nodes {
				s.Kill(n)
			}
			s.Config.Found = row.found
			s.Restart(first, memory)
			s.Run(10 * time.Minute)
			if _, serves := first.Arc(); serves != row.serves {
				t.Errorf("serves = %v", serves)
			}
			if got := first.Self().Incarnation; got != memory.Incarnation+1 {
				t.Errorf("incarnation %d after %d", got, memory.Incarnation)
			}
		})
	}
}
