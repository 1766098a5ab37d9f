package dht_test

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/admission"
	"github.com/apoidea/apoidea/dht/dhtsim"
	"github.com/apoidea/apoidea/dht/wire"
)

// inviteRing is a simulated ring by invitation: its first peer is the founder.
type inviteRing struct {
	*dhtsim.Sim
	t *testing.T
}

// newInviteRing returns a settled ring of size members, all invited by the founder.
func newInviteRing(t *testing.T, seed uint64, size int) *inviteRing {
	t.Helper()
	r := &inviteRing{t: t}
	r.Sim = dhtsim.NewSim(dhtsim.World{Seed: seed, Admission: func(n *dhtsim.Node) *admission.Book {
		b := admission.NewBook("lab", n.Peer.ID)
		if n == r.Nodes[0] {
			_ = b.Adopt(admission.Charter{Founder: n.Peer.ID})
		} else {
			_ = b.Adopt(admission.Charter{Founder: r.Nodes[0].Peer.ID})
		}
		return b
	}})
	r.OnEvent = func(n *dhtsim.Node, e dht.Event) {
		if _, ok := e.(dht.CutOff); ok {
			n.Host.After(0, func() { r.StepDown(n) })
		}
	}
	r.Join()
	r.Run(5 * time.Second)
	for range size - 1 {
		n := r.Join()
		r.Run(2 * time.Second)
		r.invite(n, time.Hour)
	}
	settle(t, r.Sim, time.Minute)
	if got := len(r.Members()); got != size {
		t.Fatalf("%d members, expected %d", got, size)
	}
	return r
}

// invite lets the founder invite a peer.
func (r *inviteRing) invite(n *dhtsim.Node, valid time.Duration) (m *wire.Admission) {
	r.t.Helper()
	var err error
	r.Admit(r.Nodes[0], func(b *admission.Book) { m, err = b.Issue(r.Now(), r.Key(r.Nodes[0]), n.Peer.ID, valid) })
	if err == nil {
		r.Admit(n, func(b *admission.Book) { err = b.Accept(r.Now(), m) })
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

// revoke lets the founder revoke a peer.
func (r *inviteRing) revoke(subject peer.ID) (revocation *wire.Revocation) {
	r.t.Helper()
	var err error
	r.Admit(r.Nodes[0], func(b *admission.Book) { revocation, err = b.Revoke(r.Now(), r.Key(r.Nodes[0]), subject) })
	if err != nil {
		r.t.Fatal(err)
	}
	return revocation
}

// take passes a revocation to peers.
func (r *inviteRing) take(revocation *wire.Revocation, to ...*dhtsim.Node) {
	r.t.Helper()
	for _, n := range to {
		var err error
		if r.Admit(n, func(b *admission.Book) { _, err = b.Take(r.Now(), revocation) }); err != nil {
			r.t.Fatal(err)
		}
	}
}

// TestUncertifiedOwnNothing: peers without a certificate join, announce themselves as neighbors,
// are in all routing tables, and claim all keys, with a certificate of another peer. No member or
// worker has one of them in any view, and every lookup ends at the right owner.
func TestUncertifiedOwnNothing(t *testing.T) {
	r := newInviteRing(t, 5, 12)
	for range 4 {
		r.Join()
	}
	r.Run(30 * time.Second)
	if got := len(r.Members()); got != 12 {
		t.Errorf("%d members after 4 peers without a certificate joined", got)
	}
	var stolen *wire.Admission
	r.Admit(r.Nodes[3], func(b *admission.Book) { stolen = b.Admission() })
	liars := make(map[peer.ID]*dhtsim.Node)
	var first dht.Peer // the one that the others vouch for
	for range 30 {
		l := r.Liar(func(self dht.Peer, req *wire.Message) *wire.Message {
			if req.GetStabilizeRequest() != nil {
				return wire.New(&wire.Message_StabilizeResponse{StabilizeResponse: &wire.StabilizeResponse{
					Sender: &wire.Neighbours{Self: self.Wire(), State: wire.State_STATE_SERVING, Admission: stolen},
				}})
			}
			m := vouchesFor(first)(self, req)
			if self.ID == first.ID {
				m = claimsAll(self, req)
			}
			m.GetNextHopResponse().Admission = stolen
			return m
		})
		if liars[l.Peer.ID] = l; first.ID == "" {
			first = l.Peer
		}
	}
	living := slices.Clone(r.Living())
	for i := range 400 {
		n := living[i%len(living)]
		for _, l := range liars {
			n.Meet(l)
		}
		key := r.RandomKey()
		if i%2 == 0 {
			key = first.Key()
		}
		want := r.Truth(key).Peer.ID
		found, err := lookupFrom(r.Sim, n, key)
		guess, guessed := n.Guess(key)
		if err != nil || found.Owner.ID != want || guessed && guess.ID != want {
			t.Errorf("lookup %d from a %s: owner %s (%v), guess %s, expected %s", i, n.State(), found.Owner, err, guess, want)
		}
	}
	for _, n := range living {
		for _, l := range liars {
			answer := n.Handle(r.Now(), l.Peer.ID, wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{
				Sender: &wire.Neighbours{Self: l.Peer.Wire(), State: wire.State_STATE_JOINING, Admission: stolen},
			}}))
			if answer.GetRefusal() == nil {
				t.Fatalf("a stabilize request without a certificate is answered: %v", answer)
			}
		}
	}
	r.Run(30 * time.Second)
	for _, n := range living {
		preds, succs := n.Leaves()
		for _, p := range slices.Concat(preds, succs, n.Ring.Members()) {
			if liars[p.ID] != nil {
				t.Errorf("peer %d has a peer without a certificate in its view", n.Index)
			}
		}
		if n.State() != dht.Worker && n.Size() != 12 {
			t.Errorf("peer %d sees a ring of %d", n.Index, n.Size())
		}
		if n.State() == dht.Worker && len(n.Attachments()) == 0 {
			t.Errorf("worker %d is not attached", n.Index)
		}
	}
}

// TestRevokedPeerLosesItsArc: its neighbors remove a revoked peer that continues to announce
// itself, and serve its arc after TakeOver. Once it learns of the revocation it becomes a worker,
// and a member again when it is invited again.
func TestRevokedPeerLosesItsArc(t *testing.T) {
	r := newInviteRing(t, 6, 8)
	revoked := r.Nodes[3]
	others := slices.DeleteFunc(slices.Clone(r.Living()), func(n *dhtsim.Node) bool { return n == revoked })
	key := revoked.Peer.Key()
	revocation := r.revoke(revoked.Peer.ID)
	r.take(revocation, others...)
	for _, n := range others {
		if is, _ := n.Leaf(revoked.Peer.ID); is {
			t.Errorf("peer %d keeps the revoked peer in its leaf set", n.Index)
		}
		if n.Serves(key) {
			t.Errorf("peer %d serves the arc before TakeOver", n.Index)
		}
	}
	r.Run(15 * time.Second)
	serving := 0
	for _, n := range others {
		if n.Serves(key) {
			serving++
		}
		if is, _ := n.Leaf(revoked.Peer.ID); is {
			t.Errorf("the revoked peer is back in the leaf set of peer %d", n.Index)
		}
	}
	if serving != 1 {
		t.Errorf("%d peers serve the arc of the revoked one", serving)
	}
	r.take(revocation, revoked)
	r.Run(5 * time.Second)
	if revoked.State() != dht.Worker {
		t.Fatalf("the revoked peer is %s", revoked.State())
	}
	settle(t, r.Sim, time.Minute)
	r.Run(2 * time.Second)
	r.invite(revoked, time.Hour)
	r.Run(time.Minute)
	settle(t, r.Sim, time.Minute)
	if revoked.State() != dht.Serving || len(r.Members()) != 8 {
		t.Errorf("invited again: %s in a ring of %d", revoked.State(), len(r.Members()))
	}
}

// TestExpiredPeerStepsDown: a peer whose certificate ends hands over before the end, and no key is
// served twice.
func TestExpiredPeerStepsDown(t *testing.T) {
	r := newInviteRing(t, 7, 6)
	n := r.Join()
	r.Run(2 * time.Second)
	r.invite(n, 5*time.Minute)
	r.Run(2 * time.Minute)
	if n.State() != dht.Serving {
		t.Fatalf("invited for five minutes: %s", n.State())
	}
	for range 30 {
		r.Run(10 * time.Second)
		if c := r.Coverage(); c.Wrong > 0 && n.State() == dht.Serving {
			t.Errorf("%.3f of the keys are served twice", c.Wrong)
		}
	}
	if n.State() != dht.Worker || len(r.Members()) != 6 {
		t.Errorf("after its certificate: %s in a ring of %d", n.State(), len(r.Members()))
	}
	settle(t, r.Sim, time.Minute)
}
