package p2p

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/member"
)

// TestVisit: a stranger who visits whom it is told of comes round the ring, learns at which address
// each answers, and leaves no connection.
func TestVisit(t *testing.T) {
	var peers []*ringPeer
	for i := range 4 {
		src := Sources{}
		if i > 0 {
			src.Bootstrap = peers[0].Addrs()
		}
		key, err := member.GenerateIdentity(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		peers = append(peers, startRingPeer(t, key, "/ip4/127.0.0.1/tcp/0", nil, src))
	}
	for end := time.Now().Add(20 * time.Second); !settled(peers); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no ring")
		}
	}
	stranger := newNetOf(t, Config{Network: "test", Reachability: ReachPrivate}, nil)
	todo := []peer.AddrInfo{{ID: peers[0].Self(), Addrs: peers[0].Host().Addrs()}}
	met := map[peer.ID]bool{}
	for len(todo) > 0 {
		to := todo[0]
		todo = todo[1:]
		if met[to.ID] {
			continue
		}
		met[to.ID] = true
		v, err := stranger.Visit(t.Context(), to)
		if err != nil || !v.Member || v.Address == nil || !slices.ContainsFunc(to.Addrs, v.Address.Equal) {
			t.Errorf("visit: %+v %v", v, err)
		}
		if n := stranger.Connections(); n != 0 {
			t.Errorf("%d connections are left", n)
		}
		todo = append(todo, v.Heard...)
	}
	if len(met) != len(peers) {
		t.Errorf("met %d of %d", len(met), len(peers))
	}
}

// TestVisitWantsTheIdentity: who answers at an address has to be the peer that is said to be there,
// and of this ring.
func TestVisitWantsTheIdentity(t *testing.T) {
	there := newNet(t, "test", "/ip4/127.0.0.1/tcp/0", nil)
	another := newNet(t, "another", "/ip4/127.0.0.1/tcp/0", nil)
	stranger := newNet(t, "test", "/ip4/127.0.0.1/tcp/0", nil)
	for name, to := range map[string]peer.AddrInfo{
		"another's address": {ID: another.Self(), Addrs: there.Host().Addrs()},
		"another ring":      {ID: another.Self(), Addrs: another.Host().Addrs()},
		"no ring":           {ID: there.Self(), Addrs: there.Host().Addrs()},
		"no address":        {ID: there.Self()},
	} {
		if v, err := stranger.Visit(t.Context(), to); err == nil || v.Member {
			t.Errorf("%s: %+v", name, v)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
