package p2p

import (
	"context"
	"log/slog"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"github.com/apoidea/apoidea/dht/member"
)

// Listen addresses of the two transports, for tests that run over each.
var transports = []struct{ name, listen string }{
	{"tcp", "/ip4/127.0.0.1/tcp/0"},
	{"quic", "/ip4/127.0.0.1/udp/0/quic-v1"},
}

// newNet returns a Net on loopback that is closed with the test. prepare
// registers handlers before it listens.
func newNet(t testing.TB, network, listen string, prepare func(*Net)) *Net {
	t.Helper()
	cfg := Config{Network: network}
	if listen != "" {
		cfg.Listen = []string{listen}
	}
	return newNetOf(t, cfg, prepare)
}

// newNetOf is newNet with a configuration, to which it adds an identity.
func newNetOf(t testing.TB, cfg Config, prepare func(*Net)) *Net {
	t.Helper()
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Identity = key
	n, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	if prepare != nil {
		prepare(n)
	}
	if err := n.Listen(); err != nil {
		t.Fatal(err)
	}
	return n
}

// introduce tells a where b is.
func introduce(a, b *Net) {
	a.host.Peerstore().AddAddrs(b.self, b.host.Addrs(), peerstore.PermanentAddrTTL)
}

func echo(_ context.Context, _ peer.ID, req []byte) ([]byte, error) { return req, nil }
