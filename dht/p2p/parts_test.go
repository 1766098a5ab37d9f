package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/workers"
)

// Each test drives one part of a Net alone, on a ground that listens nowhere and dials nobody.

func quiet(t *testing.T, cfg Config) *Net {
	t.Helper()
	var err error
	if cfg.Identity, err = member.GenerateIdentity(1, nil); err != nil {
		t.Fatal(err)
	}
	cfg.Network = "test"
	n, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// stranger is a name that no peer bears.
func stranger(t *testing.T) peer.ID {
	t.Helper()
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestAddressesThatOthersTell(t *testing.T) {
	a, id := quiet(t, Config{Profile: Public}).addresses, stranger(t)
	told := [][]byte{ma.StringCast("/ip4/10.0.0.1/tcp/1").Bytes(), {0xff}}
	for port := range 2 * maxMetAddrs {
		told = append(told, ma.StringCast(fmt.Sprintf("/ip4/8.8.8.8/tcp/%d", port+1)).Bytes())
	}
	a.Met(id, told)
	a.Met(a.self, told)
	if got := a.AddrsOf(id); len(got) != maxMetAddrs-2 || slices.Contains(got, "/ip4/10.0.0.1/tcp/1") {
		t.Errorf("%d addresses: %v", len(got), got)
	}
	if len(a.host.Peerstore().Addrs(a.self)) != 0 {
		t.Error("others say where this peer is")
	}
	if p := a.Peer(id); p.ID != id || len(p.Addrs) != maxMetAddrs-2 {
		t.Errorf("peer with %d addresses", len(p.Addrs))
	}
	if got := a.RelayedAddrsOf(id); len(got) != 0 {
		t.Errorf("relayed: %v", got)
	}
	if a.Forget(id); len(a.AddrsOf(id)) != 0 {
		t.Error("a peer that is not connected is not forgotten")
	}
}

func TestConnsTellOfTheLast(t *testing.T) {
	n, id := quiet(t, Config{}), stranger(t)
	told := 0
	n.conns.OnDisconnect(func(gone peer.ID) {
		if gone == id {
			told++
		}
	})
	n.conns.disconnected(id)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if n.conns.disconnected(id); told != 1 {
		t.Errorf("told %d times, want once while the Net is open", told)
	}
}

func TestServicesSayWhyNot(t *testing.T) {
	v := quiet(t, Config{}).services
	if id := v.Protocol("echo"); id != "/apoidea/test/echo/"+wireVersion {
		t.Errorf("service: %s", id)
	}
	for _, row := range []struct {
		speaks protocol.ID
		code   calls.Code
		says   string
	}{
		{"/apoidea/test/echo/1.0.0", calls.CodeVersion, "1.0.0"},
		{"/apoidea/other/echo/2.0.0", calls.CodeVersion, `"other"`},
		{"/apoidea/test/ring/2.0.0", calls.CodeRefused, "echo"},
	} {
		id := stranger(t)
		if err := v.host.Peerstore().SetProtocols(id, row.speaks); err != nil {
			t.Fatal(err)
		}
		if e := v.speaks(id, "echo"); e.Code != row.code || !strings.Contains(e.Message, row.says) {
			t.Errorf("%s: %v", row.speaks, e)
		}
	}
}

func TestDialerRests(t *testing.T) {
	d, id := quiet(t, Config{}).dialer, stranger(t)
	if err := d.Connect(t.Context(), d.self); err != nil {
		t.Errorf("to itself: %v", err)
	}
	if err := d.Connect(t.Context(), id); !errors.Is(err, calls.ErrUnreachable) {
		t.Errorf("without an address: %v", err)
	}
	if err := d.Connect(t.Context(), id); err == nil || !strings.Contains(err.Error(), "backoff") {
		t.Errorf("at once again: %v", err)
	}
	d.dials.cleared(id)
	if err := d.Connect(t.Context(), id); err == nil || strings.Contains(err.Error(), "backoff") {
		t.Errorf("after it was met: %v", err)
	}
}

func TestReachKnowsTheWay(t *testing.T) {
	r := quiet(t, Config{Reachability: ReachAuto}).reach
	var told []workers.Reachability
	r.OnReachability(func(seen workers.Reachability) { told = append(told, seen) })
	if r.Reached() != ReachedUnknown {
		t.Errorf("at the start: %s", r.Reached())
	}
	some := []ma.Multiaddr{ma.StringCast("/ip4/8.8.8.8/tcp/4001")}
	for _, row := range []struct {
		event any
		want  Reached
	}{
		{event.EvtHostReachableAddrsChanged{Reachable: some}, ReachedMapped},
		{"of something else", ReachedMapped},
		{event.EvtHostReachableAddrsChanged{Unreachable: some}, ReachedNot},
		{event.EvtHostReachableAddrsChanged{Unreachable: some}, ReachedNot},
	} {
		if r.dialledBack(row.event); r.Reached() != row.want {
			t.Errorf("after %v: %s", row.event, r.Reached())
		}
	}
	if !slices.Equal(told, []workers.Reachability{workers.ReachPublic, workers.ReachPrivate}) {
		t.Errorf("told %v", told)
	}
}

func TestEntranceTriesWhatWasNamedFirst(t *testing.T) {
	e := quiet(t, Config{}).entrance
	a, b := stranger(t), stranger(t)
	at := func(id peer.ID, port int) string { return fmt.Sprintf("/ip4/127.0.0.1/tcp/%d/p2p/%s", port, id) }
	var report Report
	list := e.candidates(context.Background(), Sources{
		Bootstrap: []string{at(a, 1), "nonsense"}, Nearby: []string{at(a, 2)}, Remembered: []string{at(b, 3), at(a, 4)},
	}, &report)
	if len(list) != 2 || list[0].info.ID != a || list[1].info.ID != b {
		t.Fatalf("candidates: %v", list)
	}
	if len(list[0].info.Addrs) != 3 || !slices.Equal(list[0].also, []string{sourceNearby}) {
		t.Errorf("named thrice: %v, also %v", list[0].info, list[0].also)
	}
	if len(report.Attempts) != 1 || report.Attempts[0].Address != "nonsense" {
		t.Errorf("report: %v", &report)
	}
	if err := e.try(t.Context(), candidate{info: peer.AddrInfo{ID: e.self}}); err == nil {
		t.Error("a peer enters by itself")
	}
}

func TestRelaysServeTheirOwn(t *testing.T) {
	n := quiet(t, Config{})
	r := &relays{ground: n.ground, addresses: n.addresses, services: n.services, dialer: n.dialer}
	known, other := stranger(t), stranger(t)
	for id, speaks := range map[peer.ID]protocol.ID{known: n.services.Protocol(ringService), other: "/ipfs/ping/1.0.0"} {
		if err := n.host.Peerstore().SetProtocols(id, speaks); err != nil {
			t.Fatal(err)
		}
	}
	if !r.AllowReserve(known, nil) || !r.AllowReserve(stranger(t), nil) || r.AllowReserve(other, nil) {
		t.Error("relays for others than peers of its own network")
	}
	if _, more := <-r.source(t.Context(), relayCandidates); more {
		t.Error("names relays without a membership")
	}
}
