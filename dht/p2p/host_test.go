package p2p

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
)

func TestConfigIsChecked(t *testing.T) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name string
		cfg  Config
		says string
	}{
		{"no identity", Config{Network: "n"}, "Identity"},
		{"no network", Config{Identity: key}, "Network"},
		{"a slash in the network", Config{Identity: key, Network: "a/b"}, "Network"},
		{"a long network", Config{Identity: key, Network: strings.Repeat("n", maxNetworkName+1)}, "Network"},
		{"water upside down", Config{Identity: key, Network: "n", LowWater: 9, HighWater: 8}, "HighWater"},
		{"listen without a slash", Config{Identity: key, Network: "n", Listen: []string{"127.0.0.1:0"}}, "Listen"},
	}
	for _, row := range rows {
		if _, err := New(row.cfg, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), row.says) {
			t.Errorf("%s: %v, want it to name %s", row.name, err, row.says)
		}
	}
}

func TestPortTakenIsSaid(t *testing.T) {
	first := newNet(t, "test", transports[0].listen, nil)
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	taken := first.host.Addrs()[0].String()
	second, err := New(Config{Network: "test", Identity: key, Listen: []string{taken}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Listen(); err == nil || !strings.Contains(err.Error(), taken) {
		t.Errorf("listen on a taken port: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

func TestPublicKeepsToPublicAddresses(t *testing.T) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	public, err := New(Config{Network: "test", Identity: key, Profile: Public, Listen: []string{"/ip4/127.0.0.1/tcp/0"}},
		slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := public.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := public.Listen(); err != nil {
		t.Fatal(err)
	}
	if addrs := public.Addrs(); len(addrs) != 0 {
		t.Errorf("announces %v", addrs)
	}
	neighbour := newNet(t, "test", "", nil)
	public.Met(neighbour.Self(), [][]byte{
		neighbour.host.Addrs()[0].Bytes(),
		ma.StringCast("/ip4/192.168.1.1/tcp/80").Bytes(),
		ma.StringCast("/ip4/169.254.169.254/tcp/80").Bytes(),
		{1, 2, 3},
		ma.StringCast("/ip4/8.8.8.8/tcp/4001").Bytes(),
	})
	if got := public.AddrsOf(neighbour.Self()); len(got) != 1 || got[0] != "/ip4/8.8.8.8/tcp/4001" {
		t.Errorf("kept %v", got)
	}
	public.Forget(neighbour.Self())
	introduce(public, neighbour)
	if err := public.Connect(t.Context(), neighbour.Self()); !errors.Is(err, calls.ErrUnreachable) {
		t.Errorf("dialled loopback: %v", err)
	}
}

func TestBothTransportsPreferTCP(t *testing.T) {
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	both, err := New(Config{Network: "test", Identity: key}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := both.Close(); err != nil {
			t.Error(err)
		}
	}()
	both.Handle("echo", echo)
	if err := both.Listen(); err != nil {
		t.Fatal(err)
	}
	client := newNet(t, "test", "", nil)
	introduce(client, both)
	if _, err := client.Call(t.Context(), both.Self(), "echo", nil); err != nil {
		t.Fatal(err)
	}
	for _, c := range client.host.Network().ConnsToPeer(both.Self()) {
		if _, err := c.RemoteMultiaddr().ValueForProtocol(ma.P_TCP); err != nil {
			t.Errorf("connected over %s", c.RemoteMultiaddr())
		}
	}
}

func TestProtectReplacesWhatItProtected(t *testing.T) {
	n := newNet(t, "test", "", nil)
	a, b, worker := peer.ID("a"), peer.ID("b"), peer.ID("worker")
	n.Protect([]peer.ID{a}, nil)
	n.Protect([]peer.ID{b}, []peer.ID{worker, b})
	manager := n.host.ConnManager()
	if manager.IsProtected(a, protectTag) || !manager.IsProtected(b, protectTag) || !manager.IsProtected(worker, protectTag) {
		t.Error("want b and the worker protected, and a no more")
	}
	if n.streams.Known(a) || !n.streams.Known(b) || n.streams.Known(worker) {
		t.Error("want b known, and neither the worker, which is attached because it asked, nor a")
	}
}

func TestBackoff(t *testing.T) {
	b := newBackoffs()
	now := time.Unix(1000, 0)
	cause := errors.New("refused")
	p := peer.ID("p")
	if b.wait(p, now) != nil {
		t.Error("waits for a peer that never failed")
	}
	for _, want := range []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second} {
		b.failed(p, now, cause)
		if b.wait(p, now.Add(want-1)) == nil || b.wait(p, now.Add(want)) != nil {
			t.Errorf("want to wait %v", want)
		}
	}
	for range 10 {
		b.failed(p, now, cause)
	}
	if b.wait(p, now.Add(lastBackoff)) != nil {
		t.Error("waits longer than the bound")
	}
	now = now.Add(3 * lastBackoff)
	if b.failed(p, now, cause); b.wait(p, now.Add(firstBackoff)) != nil {
		t.Error("never forgotten")
	}
	b.failed(p, now, cause)
	b.cleared(p)
	if b.wait(p, now) != nil {
		t.Error("waits for a peer that was reached")
	}
	for i := range maxBackoffs + 10 {
		b.failed(peer.ID(string(rune(i))), now, cause)
	}
	if b.peers.Len() > maxBackoffs {
		t.Errorf("%d remembered", b.peers.Len())
	}
}

func TestCloseLeavesNoGoroutine(t *testing.T) {
	server := newNet(t, "test", "", func(n *Net) {
		n.Handle("echo", echo)
		if _, err := NewKad(n); err != nil {
			t.Fatal(err)
		}
	})
	client := newNet(t, "test", "", nil)
	introduce(client, server)
	if _, err := client.Call(t.Context(), server.Self(), "echo", nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(client.Close(), server.Close()); err != nil {
		t.Fatal(err)
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, own := range []string{"p2p.(*Net).", "p2p.(*outStream).", "p2p.(*inStream).", "p2p.(*frameWriter)."} {
		if strings.Contains(string(stacks), own) {
			t.Errorf("a goroutine in %s is left:\n%s", own, stacks)
		}
	}
}

// TestPeerThatDialsIsNotDialled: who waits for the dial of a peer's old address, which nobody
// refuses, is served by the connection that the peer makes.
func TestPeerThatDialsIsNotDialled(t *testing.T) {
	silent, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	caller := newNet(t, "test", "", nil)
	back := newNet(t, "test", "", func(n *Net) { n.Handle("echo", echo) })
	old, err := quicAddr(silent.LocalAddr())
	if err != nil {
		t.Fatal(err)
	}
	caller.Met(back.Self(), [][]byte{old.Bytes()})
	// Somebody who is not met begins the same dial before, and has it fail in its time.
	other := newNet(t, "test", "", nil)
	other.Met(back.Self(), [][]byte{old.Bytes()})
	failed := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() { failed <- other.Connect(ctx, back.Self()) }()
	var from net.Addr = &net.UDPAddr{}
	heard := func() { // a dial begins
		t.Helper()
		if err := silent.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
			t.Fatal(err)
		}
		seen := from
		for seen.String() == from.String() {
			var err error
			if _, seen, err = silent.ReadFrom(make([]byte, 2048)); err != nil {
				t.Fatal(err)
			}
		}
		from = seen
	}
	heard()
	type answer struct {
		text []byte
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		text, err := caller.Call(t.Context(), back.Self(), "echo", []byte("there?"))
		answers <- answer{text, err}
	}()
	heard()
	introduce(back, caller)
	if err := back.Connect(t.Context(), caller.Self()); err != nil {
		t.Fatal(err)
	}
	select {
	case a := <-answers:
		if a.err != nil || string(a.text) != "there?" {
			t.Errorf("%q, %v", a.text, a.err)
		}
	case err := <-failed:
		t.Errorf("no answer before a dial ends: %v", err)
	}
}

func quicAddr(a net.Addr) (ma.Multiaddr, error) {
	_, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil, err
	}
	return ma.NewMultiaddr("/ip4/127.0.0.1/udp/" + port + "/quic-v1")
}
