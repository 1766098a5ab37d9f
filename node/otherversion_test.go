package node

import (
	"path/filepath"
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
	peers := startRing(t, 3)
	dirs := []string{peers[0].cfg.DataDir, peers[1].cfg.DataDir}
	host := peers[2].room.net.Host()
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
	newer.Host().SetStreamHandler("/apoidea/test/ring/9.0.0", nil)
	if err := newer.Listen(); err != nil {
		t.Fatal(err)
	}
	again := []*testPeer{startPeer(t, dirs[0], 1), startPeer(t, dirs[1], 2)}
	time.Sleep(25 * time.Second) // longer than members that find each other wait for others
	for i, p := range again {
		if s := p.room.dht.State(); s != dht.Joining {
			t.Errorf("peer %d of %s is %s beside a member of another version", i+1, filepath.Base(dirs[i]), s)
		}
	}
	if err := newer.Close(); err != nil {
		t.Fatal(err)
	}
	settle(t, again)
}
