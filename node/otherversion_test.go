package node

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
)

// TestMemberOfAnotherVersion: while a member of their ring runs that speaks another version,
// members that are started again make no second ring beside it, and when it is gone they go on.
func TestMemberOfAnotherVersion(t *testing.T) {
	fullOnly(t)
	t.Parallel()
	dirs, newer := withNewerMember(t)
	again := []*testPeer{startPeer(t, dirs[0], 1), startPeer(t, dirs[1], 2)}
	time.Sleep(25 * time.Second) // longer than members that find each other wait for others
	for i, p := range again {
		if s := p.ring.dht.State(); s != dht.Joining {
			t.Errorf("peer %d of %s is %s beside a member of another version", i+1, filepath.Base(dirs[i]), s)
		}
	}
	if err := newer.Close(); err != nil {
		t.Fatal(err)
	}
	settle(t, again)
}

// TestMemberOfAnotherVersionIsRemembered: members that start again and find each other while a
// member of their ring speaks another version keep its address.
func TestMemberOfAnotherVersionIsRemembered(t *testing.T) {
	t.Parallel()
	dirs, newer := withNewerMember(t)
	again := []*testPeer{startPeer(t, dirs[0], 1), startPeer(t, dirs[1], 2)}
	for _, p := range again {
		until(t, "the other member", func(context.Context) bool { return len(p.ring.dht.Members()) > 0 })
		if err := p.ring.remember(); err != nil {
			t.Fatal(err)
		}
		var addrs []string
		if err := p.ring.meta.GetJSON(metaRemembered, &addrs); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(strings.Join(addrs, " "), newer.Self().String()) {
			t.Errorf("remembered are %q, without %s", addrs, newer.Self())
		}
	}
}

// withNewerMember stops a ring of three, and starts its third member with another version. It
// returns the data directories of the others.
func withNewerMember(t *testing.T) ([]string, *p2p.Net) {
	t.Helper()
	peers := startRing(t, 3)
	dirs := []string{peers[0].cfg.DataDir, peers[1].cfg.DataDir}
	host := peers[2].ring.net.Host()
	key, addrs := host.Peerstore().PrivKey(host.ID()), host.Network().ListenAddresses()
	for _, p := range peers {
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}

	cfg := p2p.Config{Network: "test", Identity: key, Reachability: p2p.ReachPublic}
	for _, a := range addrs {
		cfg.Listen = append(cfg.Listen, a.String())
	}
	newer, err := p2p.New(cfg, quietLog)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = newer.Close() })
	newer.Host().SetStreamHandler("/apoidea/test/ring/9.0.0", nil)
	if err := newer.Listen(); err != nil {
		t.Fatal(err)
	}
	return dirs, newer
}
