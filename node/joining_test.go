package node

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht"
)

// TestListensWhereItDid: a peer that starts again is found where it was; if its port is taken
// meanwhile it listens elsewhere, and remembers that.
func TestListensWhereItDid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startPeer(t, dir, 1)
	first := slices.Sorted(slices.Values(p.ring.listenAddrs()))
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = startPeer(t, dir, 1)
	if again := slices.Sorted(slices.Values(p.ring.listenAddrs())); !slices.Equal(first, again) || len(first) == 0 {
		t.Errorf("listens on %v, before on %v", again, first)
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	for _, a := range first {
		m, err := multiaddr.NewMultiaddr(a)
		if err != nil {
			t.Fatal(err)
		}
		ip, _ := m.ValueForProtocol(multiaddr.P_IP4)
		port, err := m.ValueForProtocol(multiaddr.P_TCP)
		if err != nil || ip == "" {
			continue // QUIC
		}
		taken, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(ip, port))
		if err != nil {
			t.Fatal(err)
		}
		defer taken.Close()
	}
	p = startPeer(t, dir, 1)
	elsewhere := slices.Sorted(slices.Values(p.ring.listenAddrs()))
	for _, a := range elsewhere {
		if slices.Contains(first, a) {
			t.Errorf("listens on %s, which is taken", a)
		}
	}
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	p = startPeer(t, dir, 1)
	if again := slices.Sorted(slices.Values(p.ring.listenAddrs())); !slices.Equal(elsewhere, again) {
		t.Errorf("listens on %v, before on %v", again, elsewhere)
	}
}

// TestLonePeerJoinsWhenEntryAppears checks that a peer which ran alone once, and is then given an
// entry peer that does not answer, joins that peer's ring once it does.
func TestLonePeerJoinsWhenEntryAppears(t *testing.T) {
	t.Parallel()
	dirs, entry := []string{t.TempDir(), t.TempDir()}, ""
	for i, dir := range dirs {
		p := startPeer(t, dir, i+1)
		until(t, "a ring of its own", func(context.Context) bool { return p.ring.dht.State() == dht.Serving })
		if i == 0 {
			entry = p.ring.net.Addrs()[0]
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}
	var log safeBuffer
	p := startLogged(t, testConfig(dirs[1], 2, entry), slog.New(slog.NewTextHandler(&log, nil)))
	until(t, "the warning", func(context.Context) bool { return strings.Contains(log.String(), "no entry peer answers") })
	if p.ring.dht.State() != dht.Serving {
		t.Error("it does not serve meanwhile")
	}
	startPeer(t, dirs[0], 1)
	until(t, "a ring of both", func(context.Context) bool { return p.ring.dht.Size() == 2 })
}

// TestCopiedDataDirectory checks that a copy of the data directory of a running peer does not start
// beside it, and starts once that peer has stopped. It is not parallel: the search for the other
// process ends after three seconds, also on a busy machine. Slow: three rings become consistent.
func TestCopiedDataDirectory(t *testing.T) {
	peers := startRing(t, 3)
	dir, copied := peers[1].cfg.DataDir, t.TempDir()
	if err := peers[1].stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	original := startPeer(t, dir, 2)
	settle(t, []*testPeer{peers[0], original, peers[2]})
	if _, err := New(t.Context(), testConfig(copied, 2), quietLog); err == nil || !strings.Contains(err.Error(), "another process runs with the identity") {
		t.Fatalf("the copy starts: %v", err)
	}
	if err := original.stop(); err != nil {
		t.Fatal(err)
	}
	settle(t, []*testPeer{peers[0], startPeer(t, copied, 2), peers[2]})
}

// TestEntriesAreRemembered checks that a run without entry peers tries those of an earlier run, and
// that --found leaves them out.
func TestEntriesAreRemembered(t *testing.T) {
	t.Parallel()
	first, dir := startPeer(t, t.TempDir(), 1), t.TempDir()
	entry := first.ring.net.Addrs()[0]
	if err := startPeer(t, dir, 2, entry).stop(); err != nil {
		t.Fatal(err)
	}
	for _, found := range []bool{false, true} {
		cfg := testConfig(dir, 2)
		cfg.Found = found
		p := startLogged(t, cfg, quietLog)
		if got := slices.Contains(p.ring.sources.Bootstrap, entry); got == found {
			t.Errorf("found %t: entry peers %q", found, p.ring.sources.Bootstrap)
		}
		if err := p.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLeaseClock: the clock of leases is near the wall's, and does not go back.
func TestLeaseClock(t *testing.T) {
	c := newLeaseClock()
	last := c.Now()
	for range 1000 {
		now := c.Now()
		if now.Before(last) {
			t.Fatalf("%v after %v", now, last)
		}
		last = now
	}
	if _, err := netip.ParseAddrPort(withPort("127.0.0.1")); err != nil {
		t.Error(err)
	}
}
