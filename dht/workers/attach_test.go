package workers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
)

// around returns n peers, nearest to self first.
func around(self ring.Key, n int) []member.Peer {
	peers := make([]member.Peer, n)
	for i := range peers {
		peers[i] = member.New(peer.ID(fmt.Sprintf("ring-%d", i)), [][]byte{{byte(i)}})
	}
	slices.SortFunc(peers, func(p, q member.Peer) int { return ring.Near(p.Key(), self).Compare(ring.Near(q.Key(), self)) })
	return peers
}

func sameIDs(t *testing.T, what string, got, want []member.Peer) {
	t.Helper()
	if !slices.EqualFunc(got, want, func(p, q member.Peer) bool { return p.ID == q.ID }) {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

func TestAttachTakesTheNearest(t *testing.T) {
	self := ring.PeerKey([]byte("worker"))
	peers := around(self, 10)
	now := time.Unix(1e9, 0)
	a := NewAttach(self)
	if asked := a.Ask(now); len(asked) != 0 {
		t.Errorf("asks %v before it heard of anybody", asked)
	}
	for i := range peers {
		a.AddCandidates(peers[len(peers)-1-i])
	}
	a.AddCandidates(member.Peer{ID: "another", Role: member.RoleWorker}, member.Peer{})
	sameIDs(t, "asked", a.Ask(now), peers[:3])
	if len(a.Ask(now)) != 0 || len(a.Peers()) != 0 {
		t.Error("asks twice at one time, or is attached before the answer")
	}

	// The second is full: the fourth instead.
	for i, p := range peers[:3] {
		if _, changed := a.Answer(now, p.ID, i != 1, nil); changed != (i != 1) {
			t.Errorf("changed = %v by peer %d", changed, i)
		}
	}
	sameIDs(t, "asked after a refusal", a.Ask(now), peers[3:4])
	a.Answer(now, peers[3].ID, true, nil)
	held := []member.Peer{peers[0], peers[2], peers[3]}
	sameIDs(t, "attached", a.Peers(), held)
	if !a.Full() {
		t.Error("three are not enough")
	}

	// All are asked again when it is time, the first does not answer twice: the second, which may
	// have a place by now, instead.
	if at, ok := a.Next(); !ok || at != now.Add(attachRenew) {
		t.Errorf("next at %v, %v", at, ok)
	}
	now = now.Add(attachRenew)
	sameIDs(t, "renewed", a.Ask(now), held)
	if a.Failed(now, peers[0].ID) {
		t.Error("dropped after one failure")
	}
	sameIDs(t, "asked once more", a.Ask(now), peers[:1])
	if !a.Failed(now, peers[0].ID) {
		t.Error("kept after two failures")
	}
	sameIDs(t, "asked instead", a.Ask(now), peers[1:2])
}

func TestAttachMovesToNearerPeers(t *testing.T) {
	self := ring.PeerKey([]byte("worker"))
	peers := around(self, 8)
	now := time.Unix(1e9, 0)
	a := NewAttach(self)
	a.AddCandidates(peers[5:]...)
	for range 5 {
		for _, p := range a.Ask(now) {
			leave, _ := a.Answer(now, p.ID, true, peers)
			if len(leave) > 1 {
				t.Errorf("leaves %v at once", leave)
			}
		}
		if len(a.Peers()) < AttachTo {
			t.Errorf("attached to %v while it moves", a.Peers())
		}
		now = now.Add(attachBetter)
	}
	sameIDs(t, "attached at last", a.Peers(), peers[:3])
}

func TestGuestsAreBounded(t *testing.T) {
	now := time.Unix(1e9, 0)
	g := NewGuests()
	worker := func(i int) member.Peer { return member.New(peer.ID(fmt.Sprintf("worker-%d", i)), nil) }
	for i := range MaxAttached {
		if accepted, changed := g.Take(now, worker(i), ""); !accepted || !changed {
			t.Fatalf("worker %d: accepted = %v, changed = %v", i, accepted, changed)
		}
	}
	if accepted, _ := g.Take(now, worker(MaxAttached), ""); accepted {
		t.Error("one more is taken")
	}
	now = now.Add(attachRenew)
	if accepted, changed := g.Take(now, worker(3), ""); !accepted || changed {
		t.Errorf("renewed: accepted = %v, changed = %v", accepted, changed)
	}
	if !g.Drop(worker(4).ID) || g.Drop(worker(4).ID) {
		t.Error("one whose connection dropped is there, or one that is not")
	}
	if at, ok := g.Next(); !ok || at != now.Add(attachFor-attachRenew) {
		t.Errorf("next at %v, %v", at, ok)
	}
	if !g.Expire(now.Add(attachFor-attachRenew)) || g.Len() != 1 {
		t.Errorf("%d left, want the one that asked again", g.Len())
	}
}

// TestCandidatesShareTheHosts: each host has four of the workers, always the same, and each worker
// about as many hosts.
func TestCandidatesShareTheHosts(t *testing.T) {
	g := NewGuests()
	for i := range MaxAttached {
		g.Take(time.Unix(1e9, 0), member.New(peer.ID(fmt.Sprintf("worker-%d", i)), nil), "")
	}
	hosts := map[peer.ID]int{}
	const keys = 4000
	for i := range keys {
		key := ring.HostKey(fmt.Sprintf("host%d.example", i))
		chosen := g.For(key)
		sameIDs(t, "asked again", g.For(key), chosen)
		if len(chosen) != AttachedUsed {
			t.Fatalf("%d candidates", len(chosen))
		}
		for _, p := range chosen {
			hosts[p.ID]++
		}
	}
	mean := keys * AttachedUsed / MaxAttached
	for id, n := range hosts {
		if n > 3*mean || n < mean/4 {
			t.Errorf("%s is a candidate for %d hosts, the mean is %d", id, n, mean)
		}
	}
}

// TestPlacesByOrigin: workers of one network leave half of the places to others, those of some
// networks together one; in a network of one's own nobody is counted.
func TestPlacesByOrigin(t *testing.T) {
	now := time.Unix(1e9, 0)
	g := NewGuests()
	come := func(origin string, n int) (accepted int) {
		for i := range n {
			if ok, _ := g.Take(now, member.New(peer.ID(fmt.Sprint(origin, i)), nil), origin); ok {
				accepted++
			}
		}
		return accepted
	}
	for i, want := range []int{16, 8, 4, 2, 1} {
		if got := come(fmt.Sprintf("192.0.%d.0/24", i), 64); got != want {
			t.Errorf("of network %d %d are attached, want %d", i, got, want)
		}
	}
	if got := come("198.51.100.0/24", 1); got != 1 {
		t.Error("there is no place for somebody else")
	}
	g = NewGuests()
	if got := come("", 64); got != MaxAttached {
		t.Errorf("%d are attached in a network of one's own", got)
	}
}
