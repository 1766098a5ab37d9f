package p2p

import (
	"context"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
)

// kadPeer is a Net with its Kad.
type kadPeer struct {
	*Net
	*Kad
}

// newMembers returns n members on loopback that know each other through the
// first, by Bootstrap and one lookup of their own position.
func newMembers(t testing.TB, n int) []kadPeer {
	t.Helper()
	members := make([]kadPeer, n)
	for i := range members {
		members[i].Net = newNet(t, "test", transports[i%len(transports)].listen, func(net *Net) {
			var err error
			if members[i].Kad, err = NewKad(net); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, m := range members[1:] {
		report := m.Bootstrap(t.Context(), Sources{Bootstrap: members[0].Addrs()})
		if len(report.Entries) != 1 {
			t.Fatal(report)
		}
	}
	for _, m := range members {
		waitFor(t, "a peer in the routing table", func() bool { return m.Size() > 0 })
		if _, err := m.Closest(t.Context(), ring.PeerKey([]byte(m.Self()))); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range members {
		waitFor(t, "all in the routing table", func() bool { return m.Size() >= min(n-1, bucketSize) })
	}
	return members
}

// waitFor polls, because kad-dht tells nobody when it is ready; the test's own
// deadline is the bound.
func waitFor(t testing.TB, what string, ready func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for !ready() {
		select {
		case <-ctx.Done():
			t.Fatalf("waited in vain for %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestMembershipAgreesWithTheTruth(t *testing.T) {
	members := newMembers(t, 8)
	asker := members[3]
	var others []dht.Peer
	for _, m := range members {
		if m.Self() != asker.Self() {
			others = append(others, asker.Peer(m.Self()))
		}
	}
	waitFor(t, "a fresh view", func() bool { return len(asker.All()) == len(others) })
	for i := range 50 {
		key := ring.Key(sha256.Sum256([]byte{byte(i)}))
		want := ids(nearest(others, key, 3))
		if got := ids(asker.Nearest(key, 3)); !slices.Equal(got, want) {
			t.Errorf("Nearest(%s) = %v, want %v", key, got, want)
		}
		if i < 5 {
			found, err := asker.Closest(t.Context(), key)
			if got := ids(found); err != nil || len(got) != len(others) || !slices.Equal(got[:3], want) {
				t.Errorf("Closest(%s) = %v, %v, want it to begin with %v", key, got, err, want)
			}
		}
	}
	for _, p := range asker.All() {
		if len(p.Addrs) == 0 {
			t.Errorf("%s without an address", p)
		}
	}
}

func TestDeadPeerLeavesTheTable(t *testing.T) {
	members := newMembers(t, 4)
	dead := members[2]
	if err := dead.Net.Close(); err != nil {
		t.Fatal(err)
	}
	asker := members[1]
	waitFor(t, "the connection to drop", func() bool { return !asker.Connected(dead.Self()) })
	if err := asker.Connect(t.Context(), dead.Self()); err == nil {
		t.Fatal("connected to a closed peer")
	}
	if slices.Contains(ids(asker.All()), dead.Self().String()) {
		t.Error("the dead peer is still a member")
	}
}

func TestUnknownAddressIsFoundByMembership(t *testing.T) {
	members := newMembers(t, 4)
	late := newNet(t, "test", "", func(n *Net) {
		if _, err := NewKad(n); err != nil {
			t.Fatal(err)
		}
	})
	introduce(late, members[0].Net)
	if err := late.Connect(t.Context(), members[0].Self()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a peer in the routing table", func() bool { return late.kad.Load().Size() > 0 })
	if err := late.Connect(t.Context(), members[3].Self()); err != nil {
		t.Errorf("a peer whose address nobody told: %v", err)
	}
}

func TestPreimageMeetsTheKey(t *testing.T) {
	n := newNet(t, "test", "", nil)
	k, err := NewKad(n)
	if err != nil {
		t.Fatal(err)
	}
	own := ring.PeerKey([]byte(n.Self()))
	if got := ring.KeyOf([]byte(k.preimage(own))); got != own {
		t.Errorf("own position: %s, want %s exactly", got, own)
	}
	for _, name := range []string{"a.example", "b.example"} {
		key := ring.HostKey(name)
		got := ring.KeyOf([]byte(k.preimage(key)))
		if !slices.Equal(got[:searchBits/8], key[:searchBits/8]) {
			t.Errorf("%s: %s does not begin like %s", name, got, key)
		}
	}
	if _, err := NewKad(n); err == nil {
		t.Error("a second Kad on one Net")
	}
}

func ids(peers []dht.Peer) []string {
	list := make([]string, len(peers))
	for i, p := range peers {
		list[i] = p.String()
	}
	return list
}

func BenchmarkNearest(b *testing.B) {
	peers := make([]dht.Peer, 160)
	for i := range peers {
		key, err := member.GenerateIdentity(1, nil)
		if err != nil {
			b.Fatal(err)
		}
		id, err := peer.IDFromPrivateKey(key)
		if err != nil {
			b.Fatal(err)
		}
		peers[i] = dht.NewPeer(id, nil)
	}
	key := ring.HostKey("a.example")
	b.ReportAllocs()
	for b.Loop() {
		nearest(peers, key, bucketSize)
	}
}

func BenchmarkPreimage(b *testing.B) {
	k := &Kad{net: &Net{ground: &ground{self: "somebody"}}}
	for i := 0; b.Loop(); i++ {
		k.preimage(ring.KeyOf([]byte{byte(i), byte(i >> 8)}))
	}
}
