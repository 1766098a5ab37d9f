package dht_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/dhttest"
	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
)

// running is a DHT with its Run.
type running struct {
	*dht.DHT
	host   *dhttest.End
	cancel context.CancelFunc
	done   sync.WaitGroup
}

func start(t *testing.T, network *dhttest.Mesh, i int, cfg dht.Config) *running {
	t.Helper()
	r := &running{host: network.End(dhtsim.Identity(i))}
	cfg.Seed = uint64(i)
	d, err := dht.New(cfg, dhtsim.Identity(i), r.host, r.host, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	r.DHT = d
	r.host.Listen(d.Handle)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	r.done.Go(func() {
		if err := d.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

func (r *running) stop() {
	r.host.Close()
	r.cancel()
	r.done.Wait()
}

// startRing starts n peers, each joining through a random one before it, and lets them settle.
func startRing(t *testing.T, network *dhttest.Mesh, n int) []*running {
	t.Helper()
	rnd := rand.New(rand.NewPCG(5, 5))
	peers := []*running{start(t, network, 0, dht.Config{Found: true})}
	for i := 1; i < n; i++ {
		r := start(t, network, i, dht.Config{})
		if err := r.Join(t.Context(), []dht.Peer{peers[rnd.IntN(i)].Self()}); err != nil {
			t.Fatal(err)
		}
		peers = append(peers, r)
	}
	for range 60 {
		time.Sleep(time.Second)
		if !slices.ContainsFunc(peers, func(r *running) bool { return r.State() != dht.Serving }) {
			break
		}
	}
	time.Sleep(10 * time.Second)
	return peers
}

func ownerOf(peers []*running, key ring.Key) dht.Peer {
	behind := func(r *running) ring.Key { return r.Self().Key().Sub(key) }
	return slices.MinFunc(peers, func(a, b *running) int { return behind(a).Compare(behind(b)) }).Self()
}

func TestRingOf24Runs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := dhttest.NewMesh(1, 15*time.Millisecond)
		peers := startRing(t, network, 24)
		defer func() {
			for _, r := range peers {
				r.stop()
			}
		}()
		total := 0.0
		for _, r := range peers {
			arc, serves := r.Arc()
			if !serves {
				t.Fatalf("%s does not serve: %s", r.Self(), r.State())
			}
			total += arc.Fraction()
		}
		if total < 0.999999 || total > 1.000001 {
			t.Errorf("the arcs sum up to %g of the circle", total)
		}
		rnd := rand.New(rand.NewPCG(6, 6))
		calls := 0
		for range 500 {
			key := randomKey(rnd)
			found, err := peers[rnd.IntN(len(peers))].Lookup(t.Context(), key)
			if err != nil || found.Owner.ID != ownerOf(peers, key).ID {
				t.Fatalf("owner of %s: %v, %v", key, found.Owner, err)
			}
			calls += found.Calls
		}
		t.Logf("24 peers: %.3f calls a lookup", float64(calls)/500)

		before := network.Calls()
		time.Sleep(time.Minute)
		quiet := float64(network.Calls()-before) / float64(len(peers)) / 60
		t.Logf("upkeep of a quiet ring: %.2f calls a peer and second", quiet)
		if quiet > 1.5 {
			t.Errorf("a quiet ring makes %.2f calls a peer and second", quiet)
		}
	})
}

func TestHintsSpareTheLookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := startRing(t, dhttest.NewMesh(2, 15*time.Millisecond), 24)
		defer func() {
			for _, r := range peers {
				r.stop()
			}
		}()
		// What a node does: send to the guess, follow the hints of whoever is not the owner,
		// remember them.
		rnd := rand.New(rand.NewPCG(7, 7))
		byID := map[string]*running{}
		for _, r := range peers {
			byID[string(r.Self().ID)] = r
		}
		route := func(from *running, key ring.Key) (calls int) {
			to, ok := from.Guess(key)
			if !ok {
				found, err := from.Lookup(t.Context(), key)
				if err != nil {
					t.Fatal(err)
				}
				return found.Calls
			}
			for to.ID != from.Self().ID {
				calls++
				if byID[string(to.ID)].Serves(key) {
					break
				}
				hint := byID[string(to.ID)].Hint(key)
				from.Learn(hint)
				to = byID[string(hint.GetOwner().GetId())].Self()
			}
			return calls
		}
		first, second := 0, 0
		keys := make([]ring.Key, 300)
		for i := range keys {
			keys[i] = randomKey(rnd)
			first += route(peers[i%len(peers)], keys[i])
		}
		for i := range keys {
			second += route(peers[i%len(peers)], keys[i])
		}
		t.Logf("calls a key: %.3f cold, %.3f warm", float64(first)/300, float64(second)/300)
		if second > 300 {
			t.Errorf("%d calls for 300 keys whose owners are known", second)
		}
	})
}

func TestJoinNamesEntriesThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, dhttest.NewMesh(3, time.Millisecond), 1, dht.Config{})
		defer r.stop()
		err := r.Join(t.Context(), []dht.Peer{dhtsim.Identity(8), dhtsim.Identity(9)})
		if !errors.Is(err, dhtsim.ErrRefused) {
			t.Fatalf("join = %v", err)
		}
		for _, i := range []int{8, 9} {
			if !strings.Contains(err.Error(), dhtsim.Identity(i).String()) {
				t.Errorf("the error does not name entry %d: %v", i, err)
			}
		}
		time.Sleep(time.Hour)
		if r.State() != dht.Joining {
			t.Errorf("a peer that reached nobody is %s", r.State())
		}
	})
}

func TestLeaveHandsTheArcOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := startRing(t, dhttest.NewMesh(4, 15*time.Millisecond), 5)
		defer func() {
			for _, r := range peers[1:] {
				r.stop()
			}
		}()
		key := peers[0].Self().Key()
		heir := ownerOf(peers[1:], key)
		if err := peers[0].Leave(t.Context()); err != nil {
			t.Fatal(err)
		}
		if peers[0].Serves(key) || peers[0].State() != dht.Leaving {
			t.Error("a peer that left still serves")
		}
		if to, ok := peers[0].Guess(key); !ok || to.ID != heir.ID {
			t.Errorf("a peer that left sends its keys to %v", to)
		}
		peers[0].stop()
		for _, r := range peers[1:] {
			if r.Self().ID == heir.ID && !r.Serves(key) {
				t.Error("the successor does not serve at once what was left to it")
			}
		}
	})
}

func TestChoosePositionTakesTheWidestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := dhttest.NewMesh(5, 15*time.Millisecond)
		peers := startRing(t, network, 6)
		defer func() {
			for _, r := range peers {
				r.stop()
			}
		}()
		var candidates []ring.Key
		var arcs []ring.Arc
		for i := range ring.PositionChoices {
			candidates = append(candidates, dhtsim.Identity(100+i).Key())
			for _, r := range peers {
				if arc, _ := r.Arc(); arc.Contains(candidates[i]) {
					arcs = append(arcs, arc)
				}
			}
		}
		newcomer := network.End(dhtsim.Identity(99))
		got, err := lookup.ChoosePosition(t.Context(), newcomer.Call, []dht.Peer{peers[2].Self()}, candidates)
		if want := ring.BestPosition(candidates, arcs); err != nil || got != want {
			t.Errorf("candidate %d, %v; want %d", got, err, want)
		}
		if _, err := lookup.ChoosePosition(t.Context(), newcomer.Call, []dht.Peer{dhtsim.Identity(77)}, candidates); !errors.Is(err, dht.ErrNoOwner) {
			t.Errorf("without an entry: %v", err)
		}
	})
}

func TestSnapshotIsReadBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peers := startRing(t, dhttest.NewMesh(6, time.Millisecond), 4)
		defer func() {
			for _, r := range peers {
				r.stop()
			}
		}()
		data, err := peers[1].Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		memory, err := dht.ParseMemory(data)
		if err != nil {
			t.Fatal(err)
		}
		arc, _ := peers[1].Arc()
		if memory.Alone || !memory.HasPredecessor || memory.Predecessor != arc.Start || len(memory.Peers) != 3 || memory.Incarnation != 1 {
			t.Errorf("memory %+v", memory)
		}
		if _, err := dht.ParseMemory(data[:len(data)-1]); err == nil {
			t.Error("a cut memory was read")
		}
	})
}
