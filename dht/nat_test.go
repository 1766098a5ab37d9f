package dht_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/workers"
)

// attached says what is not as it should be of the workers: each is attached to three ring peers,
// and those know it. It is nil when all is.
func attached(s *dhtsim.Sim) error {
	attached := map[peer.ID][]peer.ID{}
	for _, n := range s.Members() {
		if got := len(n.Attached()); got > workers.MaxAttached {
			return fmt.Errorf("peer %d has %d workers attached", n.Index, got)
		}
		for _, w := range n.Attached() {
			attached[w.ID] = append(attached[w.ID], n.Self().ID)
		}
	}
	for _, n := range s.Living() {
		if n.State() != dht.Worker {
			continue
		}
		want := min(workers.AttachTo, len(s.Members()))
		holders := attached[n.Self().ID]
		if got := n.Attachments(); len(got) != want || len(holders) != want {
			return fmt.Errorf("worker %d is attached to %d peers, and %d hold it, want %d", n.Index, len(got), len(holders), want)
		}
		for _, p := range n.Attachments() {
			if !slices.Contains(holders, p.ID) {
				return fmt.Errorf("worker %d is not held by %s", n.Index, p)
			}
		}
	}
	return nil
}

// natWorld grows a ring of n, of which those in behind cannot be dialled, until all is as it should
// be.
func natWorld(t *testing.T, seed uint64, n int, behind map[int]bool) *dhtsim.Sim {
	t.Helper()
	unraced(t)
	s := dhtsim.NewSim(dhtsim.World{Seed: seed, NAT: func(i int) bool { return behind[i] }})
	rnd := rand.New(rand.NewPCG(seed, 51))
	neverTwice(t, s, nil)
	s.Add()
	for i := 1; i < n; i++ {
		s.Run(200 * time.Millisecond)
		members := s.Members()
		s.Add(members[rnd.IntN(len(members))])
	}
	asItShouldBe(t, s, time.Minute)
	return s
}

func asItShouldBe(t *testing.T, s *dhtsim.Sim, within time.Duration) {
	t.Helper()
	if !s.RunUntil(within, func() bool { return s.Settled() == nil && attached(s) == nil }) {
		t.Fatalf("after %v: ring: %v; workers: %v", within, s.Settled(), attached(s))
	}
}

// aThird draws about 30 % of n, and not the founder.
func aThird(seed uint64, n int) map[int]bool {
	behind := map[int]bool{}
	for _, i := range rand.New(rand.NewPCG(seed, 52)).Perm(n - 1)[:3*n/10] {
		behind[i+1] = true
	}
	return behind
}

// TestThirtyPercentBehindNAT: they own nothing, find every owner, stay attached while ring peers
// die, and nobody takes them for ring peers.
func TestThirtyPercentBehindNAT(t *testing.T) {
	unraced(t)
	for _, row := range []struct {
		name  string
		peers int
	}{{"8", 8}, {"40", 40}} {
		t.Run(row.name, func(t *testing.T) {
			for seed := range uint64(3) {
				behind := aThird(seed, row.peers)
				s := natWorld(t, seed, row.peers, behind)
				checkLookups(t, s, "settled", 200)
				before := s.Sent[dhtsim.Upkeep].Calls
				s.Run(2 * time.Minute)
				asItShouldBe(t, s, time.Second)
				t.Logf("upkeep: %.2f calls a peer and second", float64(s.Sent[dhtsim.Upkeep].Calls-before)/float64(row.peers)/120)

				rnd := rand.New(rand.NewPCG(seed, 53))
				for range row.peers / 8 {
					members := s.Members()
					s.Kill(members[rnd.IntN(len(members))])
					s.Run(5 * time.Second)
				}
				asItShouldBe(t, s, 30*time.Second)
				checkLookups(t, s, "after deaths", 200)
				for i := range behind {
					if _, serves := s.Nodes[i].Arc(); serves || s.Nodes[i].State() != dht.Worker {
						t.Errorf("peer %d behind NAT is %s", i, s.Nodes[i].State())
					}
				}
			}
		})
	}
}

// TestMoreWorkersThanPlaces: two ring peers take 32 workers each, the others wait, and get the
// places of those that die.
func TestMoreWorkersThanPlaces(t *testing.T) {
	behind := map[int]bool{}
	for i := 2; i < 42; i++ {
		behind[i] = true
	}
	s := dhtsim.NewSim(dhtsim.World{Seed: 1, NAT: func(i int) bool { return behind[i] }})
	s.Add()
	for i := 1; i < 42; i++ {
		s.Add(s.Nodes[0])
		s.Run(200 * time.Millisecond)
	}
	s.Run(time.Minute)
	for _, n := range s.Members() {
		if got := len(n.Attached()); got != workers.MaxAttached {
			t.Errorf("peer %d has %d workers", n.Index, got)
		}
	}
	before := s.Sent[dhtsim.Upkeep].Calls
	s.Run(time.Minute)
	if rate := float64(s.Sent[dhtsim.Upkeep].Calls-before) / 42 / 60; rate > 1.5 {
		t.Errorf("%.2f calls a peer and second while places are missing", rate)
	}
	waits := slices.IndexFunc(s.Nodes, func(n *dhtsim.Node) bool { return behind[n.Index] && len(n.Attachments()) == 0 })
	if waits < 0 {
		t.Fatal("each worker has a place at one of the two")
	}
	for i := range behind {
		if i != waits {
			s.Kill(s.Nodes[i])
		}
	}
	s.Run(2 * time.Minute)
	if got := len(s.Nodes[waits].Attachments()); got != 2 {
		t.Errorf("attached to %d of two peers with places", got)
	}
}

// TestRolesChange: a worker that can be dialled joins after 15 minutes, a ring peer that cannot is
// told after one, serves until it steps down, and its successor serves at once.
func TestRolesChange(t *testing.T) {
	behind := aThird(4, 16)
	s := natWorld(t, 4, 16, behind)
	var worker, member *dhtsim.Node
	for _, n := range s.Nodes[1:] {
		if behind[n.Index] {
			worker = n
		} else {
			member = n
		}
	}
	cut := false
	s.OnEvent = func(n *dhtsim.Node, e dht.Event) {
		if _, ok := e.(dht.CutOff); ok && n == member {
			cut = true
		}
	}

	delete(behind, worker.Index)
	s.Observe(worker, workers.ReachPublic)
	s.Run(15*time.Minute - time.Second)
	if worker.State() != dht.Worker {
		t.Errorf("%s before its reachability is confirmed", worker.State())
	}
	s.Run(6 * time.Second)
	if !worker.Serves(worker.Self().Key()) || worker.Self().Role != dht.RoleMember {
		t.Errorf("%s, a %s, 5 s after it was confirmed", worker.State(), worker.Self().Role)
	}
	asItShouldBe(t, s, 10*time.Second)

	behind[member.Index] = true
	s.Observe(member, workers.ReachPrivate)
	s.Run(59 * time.Second)
	if cut {
		t.Error("told to step down before a minute has passed")
	}
	s.Run(2 * time.Second)
	key := member.Self().Key()
	if !cut || !member.Serves(key) {
		t.Errorf("told = %v, serves = %v", cut, member.Serves(key))
	}
	s.StepDown(member)
	s.Run(2 * time.Second)
	if heir := s.Truth(key); heir == member || !heir.Serves(key) {
		t.Error("the arc that was given up is not served")
	}
	asItShouldBe(t, s, 20*time.Second)
	checkLookups(t, s, "after both", 200)
}

// TestWorkerThatSlept finds its places again, and has not become a ring peer in its sleep.
func TestWorkerThatSlept(t *testing.T) {
	unraced(t)
	behind := aThird(5, 16)
	s := natWorld(t, 5, 16, behind)
	for i := range behind {
		s.Observe(s.Nodes[i], workers.ReachPublic)
		s.Nodes[i].Pause(time.Hour)
	}
	s.Run(time.Hour + 15*time.Second)
	asItShouldBe(t, s, time.Second)
	for i := range behind {
		if s.Nodes[i].State() != dht.Worker {
			t.Errorf("peer %d is %s", i, s.Nodes[i].State())
		}
	}
}

// TestWorkerRemembers: a worker that restarts finds the ring by what it remembers, and a Memory
// keeps the role.
func TestWorkerRemembers(t *testing.T) {
	behind := aThird(6, 16)
	s := natWorld(t, 6, 16, behind)
	for i := range behind {
		n := s.Nodes[i]
		data, err := n.Snapshot().Bytes()
		if err != nil {
			t.Fatal(err)
		}
		memory, err := dht.ParseMemory(data)
		if err != nil || memory.Role != dht.RoleWorker || memory.HasPredecessor {
			t.Fatalf("memory %+v, %v", memory, err)
		}
		s.Kill(n)
		s.Run(5 * time.Second)
		s.Restart(n, memory)
	}
	asItShouldBe(t, s, 40*time.Second)
}

// TestWorkerLearnsOwners: a worker knows the owners that it looked up, so that what it has to say
// finds them, and the next one when one is gone.
func TestWorkerLearnsOwners(t *testing.T) {
	s := natWorld(t, 7, 8, map[int]bool{1: true})
	n, key := s.Nodes[1], ring.HostKey("a.example")
	for range 2 {
		found, err := lookupFrom(s, n, key)
		if err != nil {
			t.Fatal(err)
		}
		if owner, ok := n.Guess(key); !ok || owner.ID != found.Owner.ID {
			t.Errorf("%v is believed to own what %v was found to", owner.ID, found.Owner.ID)
		}
		for _, o := range s.Members() {
			if o.Self().ID == found.Owner.ID {
				s.Kill(o)
			}
		}
		s.Run(20 * time.Second)
	}
}
