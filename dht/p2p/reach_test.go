package p2p

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/workers"
)

func TestReachabilityOf(t *testing.T) {
	some := []ma.Multiaddr{ma.StringCast("/ip4/8.8.8.8/tcp/4001")}
	for _, row := range []struct {
		name string
		e    event.EvtHostReachableAddrsChanged
		want workers.Reachability
	}{
		{"nothing known", event.EvtHostReachableAddrsChanged{}, workers.ReachUnknown},
		{"not yet tried", event.EvtHostReachableAddrsChanged{Unknown: some}, workers.ReachUnknown},
		{"dialled", event.EvtHostReachableAddrsChanged{Reachable: some}, workers.ReachPublic},
		{"tried in vain", event.EvtHostReachableAddrsChanged{Unreachable: some, Unknown: some}, workers.ReachPrivate},
		{"one of two", event.EvtHostReachableAddrsChanged{Reachable: some, Unreachable: some}, workers.ReachPublic},
	} {
		if got := reachabilityOf(row.e); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// newReachNet returns a Net on loopback that need not listen.
func newReachNet(t *testing.T, profile Profile, reach Reachability) *Net {
	t.Helper()
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Network: "test", Identity: key, Profile: profile, Reachability: reach, Listen: []string{"/ip4/127.0.0.1/tcp/0"}}
	n, err := New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func TestRoleAtTheStart(t *testing.T) {
	member, worker := &dht.Memory{Role: dht.RoleMember}, &dht.Memory{Role: dht.RoleWorker}
	for _, row := range []struct {
		name    string
		profile Profile
		reach   Reachability
		memory  *dht.Memory
		founder bool
		want    dht.Role
	}{
		{"lab", Lab, ReachByProfile, nil, false, dht.RoleMember},
		{"lab, private", Lab, ReachPrivate, member, true, dht.RoleWorker},
		{"public, first start", Public, ReachByProfile, nil, false, dht.RoleWorker},
		{"public, founder", Public, ReachByProfile, nil, true, dht.RoleMember},
		{"public, was a member", Public, ReachByProfile, member, false, dht.RoleMember},
		{"public, was a worker", Public, ReachByProfile, worker, false, dht.RoleWorker},
		{"public, reachable for sure", Public, ReachPublic, worker, false, dht.RoleMember},
	} {
		if got := newReachNet(t, row.profile, row.reach).Role(row.memory, row.founder); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// TestDialBacksAreTold: what AutoNAT finds out reaches the listener once a change, in the order of
// the changes.
func TestDialBacksAreTold(t *testing.T) {
	n := newReachNet(t, Lab, ReachAuto)
	told := make(chan workers.Reachability, 8)
	n.OnReachability(func(r workers.Reachability) { told <- r })
	emit, err := n.host.EventBus().Emitter(new(event.EvtHostReachableAddrsChanged))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = emit.Close() }()
	some := []ma.Multiaddr{ma.StringCast("/ip4/8.8.8.8/tcp/4001")}
	for _, e := range []event.EvtHostReachableAddrsChanged{
		{Unknown: some}, {Reachable: some}, {Reachable: some, Unreachable: some}, {Unreachable: some},
	} {
		if err := emit.Emit(e); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- n.Run(ctx) }()
	for _, want := range []workers.Reachability{workers.ReachPublic, workers.ReachPrivate} {
		if got := <-told; got != want {
			t.Errorf("told %s, want %s", got, want)
		}
	}
	cancel()
	if err := <-done; err != nil || len(told) > 0 {
		t.Errorf("run: %v, %d more told", err, len(told))
	}
}

func TestWithoutDial(t *testing.T) {
	server := newNet(t, "test", "", func(n *Net) { n.Handle("echo", echo) })
	client := newNet(t, "test", "", func(n *Net) { n.Handle("echo", echo) })
	introduce(client, server)
	introduce(server, client)
	ctx := calls.WithoutDial(t.Context())
	if _, err := server.Call(ctx, client.Self(), "echo", nil); !errors.Is(err, calls.ErrUnreachable) || server.Connected(client.Self()) {
		t.Errorf("called without a connection: %v", err)
	}
	if err := client.Connect(t.Context(), server.Self()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the connection", func() bool { return server.Connected(client.Self()) })
	if got, err := server.Call(ctx, client.Self(), "echo", []byte("back")); err != nil || string(got) != "back" {
		t.Errorf("over the other's connection: %q, %v", got, err)
	}
}

// TestWorkerOverItsOwnConnections: one of five peers cannot be dialled, by its own word. It is
// attached to three, which reach it, and stands in no leaf set and no routing table; when it may,
// it joins.
func TestWorkerOverItsOwnConnections(t *testing.T) {
	founder := startReachPeer(t, ReachByProfile, Sources{})
	src := Sources{Bootstrap: founder.Addrs()}
	peers := []*ringPeer{founder}
	for range 3 {
		peers = append(peers, startReachPeer(t, ReachByProfile, src))
	}
	waitFor(t, "one ring of four", func() bool { return settled(peers) })
	worker := startReachPeer(t, ReachAuto, src)
	holds := func(p *ringPeer) bool { return len(p.dht.Attached()) == 1 }
	waitForAWhile(t, "three attachments that both sides know", func() bool {
		return len(worker.dht.Attachments()) == workers.AttachTo && !slices.ContainsFunc(peers, func(p *ringPeer) bool {
			return holds(p) != slices.ContainsFunc(worker.dht.Attachments(), func(q dht.Peer) bool { return q.ID == p.Self() })
		})
	})
	for _, p := range peers {
		if !holds(p) {
			continue
		}
		candidate := p.dht.Candidates(founder.dht.Self().Key())[0]
		if _, err := p.Call(calls.WithoutDial(t.Context()), candidate.ID, ringService, nil); calls.CodeOf(err) != 0 || errors.Is(err, calls.ErrUnreachable) {
			t.Errorf("a worker is not reached over its connection: %v", err)
		}
		if slices.ContainsFunc(p.Kad.All(), func(q dht.Peer) bool { return q.ID == worker.Self() }) {
			t.Error("a worker stands in a routing table")
		}
		if size := p.dht.Size(); size != 4 {
			t.Errorf("a ring of %d", size)
		}
	}
	checkOwners(t, peers, 20)

	worker.dht.Observe(workers.ReachPublic)
	peers = append(peers, worker)
	waitFor(t, "one ring of five", func() bool { return settled(peers) })
	waitFor(t, "its place in the routing tables", func() bool {
		return slices.ContainsFunc(founder.Kad.All(), func(q dht.Peer) bool { return q.ID == worker.Self() })
	})
}

// startReachPeer runs a peer as startRingPeer does, with a role that follows its reachability at
// once.
func startReachPeer(t *testing.T, reach Reachability, src Sources) *ringPeer {
	t.Helper()
	key, err := member.GenerateIdentity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	return startPeer(t, Config{Network: "test", Identity: key, Listen: []string{transports[0].listen}, Reachability: reach},
		dht.Config{Promote: time.Millisecond, Demote: time.Millisecond}, src)
}
