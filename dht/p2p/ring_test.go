package p2p

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
)

// ringPeer is a whole peer of the ring, as a node wires it.
type ringPeer struct {
	kadPeer
	dht  *dht.DHT
	stop func()
}

// startRingPeer runs a peer until its stop, or the end of the test. Without
// sources it founds a ring.
func startRingPeer(t *testing.T, key crypto.PrivKey, listen string, memory *dht.Memory, src Sources) *ringPeer {
	t.Helper()
	return startPeer(t, Config{Network: "test", Identity: key, Listen: []string{listen}}, dht.Config{Memory: memory}, src)
}

// startPeer runs a peer of a ring in a hurry.
func startPeer(t *testing.T, netCfg Config, cfg dht.Config, src Sources) *ringPeer {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	net, err := New(netCfg, log)
	if err != nil {
		t.Fatal(err)
	}
	kad, err := NewKad(net)
	if err != nil {
		t.Fatal(err)
	}
	p := &ringPeer{kadPeer: kadPeer{net, kad}}
	cfg.Interval, cfg.MaxInterval = 50*time.Millisecond, 200*time.Millisecond
	cfg.TakeOver, cfg.RejoinGrace, cfg.Found = 200*time.Millisecond, 200*time.Millisecond, src.Empty()
	cfg.Role = net.Role(cfg.Memory, cfg.Found)
	transport := NewRingTransport(net)
	if p.dht, err = dht.New(cfg, net.Peer(net.Self()), transport, kad, log); err != nil {
		t.Fatal(err)
	}
	transport.Serve(p.dht.Handle)
	net.OnDisconnect(p.dht.Disconnected)
	if err := net.Follow(p.dht); err != nil {
		t.Fatal(err)
	}
	if err := net.Listen(); err != nil {
		t.Fatal(err)
	}
	p.dht.SetAddrs(net.Peer(net.Self()).Addrs)

	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.dht.Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("ring: %v", err)
		}
	})
	running.Go(func() {
		if err := net.Run(ctx); err != nil {
			t.Errorf("net: %v", err)
		}
	})
	p.stop = func() {
		cancel()
		running.Wait()
	}
	t.Cleanup(func() { p.stop() })
	p.join(t, src)
	return p
}

func (p *ringPeer) join(t *testing.T, src Sources) {
	t.Helper()
	if src.Empty() {
		return
	}
	report := p.Bootstrap(t.Context(), src)
	if len(report.Entries) == 0 {
		t.Fatal(report)
	}
	entries := make([]dht.Peer, len(report.Entries))
	for i, id := range report.Entries {
		entries[i] = p.Peer(id)
	}
	if err := p.dht.Join(t.Context(), entries); err != nil {
		t.Fatal(err)
	}
}

// settled says whether the peers form one ring: every arc begins at the true
// predecessor.
func settled(peers []*ringPeer) bool {
	ring := inOrder(peers)
	for i, p := range ring {
		arc, serves := p.dht.Arc()
		if !serves || arc.Start != ring[(i+len(ring)-1)%len(ring)].dht.Self().Key() {
			return false
		}
	}
	return true
}

func inOrder(peers []*ringPeer) []*ringPeer {
	return slices.SortedFunc(slices.Values(peers), func(a, b *ringPeer) int {
		return a.dht.Self().Key().Compare(b.dht.Self().Key())
	})
}

// trueOwner of a key: its successor among peers in order.
func trueOwner(inOrder []*ringPeer, key ring.Key) peer.ID {
	for _, p := range inOrder {
		if p.dht.Self().Key().Compare(key) >= 0 {
			return p.Self()
		}
	}
	return inOrder[0].Self()
}

func checkOwners(t *testing.T, peers []*ringPeer, keys int) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	ordered := inOrder(peers)
	calls := 0
	for range keys {
		var key ring.Key
		for i := range key {
			key[i] = byte(rnd.Uint32())
		}
		asker := peers[rnd.IntN(len(peers))]
		found, err := asker.dht.Lookup(t.Context(), key)
		if want := trueOwner(ordered, key); err != nil || found.Owner.ID != want {
			t.Errorf("owner of %s: %s, %v, want %s", key, found.Owner, err, want)
		}
		calls += found.Calls
	}
	t.Logf("%.2f calls a lookup", float64(calls)/float64(keys))
}

// TestRingOfEight is the whole network stack: eight peers bootstrap from TXT
// records, settle into one ring and find every owner; one dies; one comes back
// with the DNS server gone, by the peers it remembers.
//
// Slow: eight libp2p hosts form a ring.
func TestRingOfEight(t *testing.T) {
	keys := make([]crypto.PrivKey, 8)
	for i := range keys {
		var err error
		if keys[i], err = member.GenerateIdentity(1, nil); err != nil {
			t.Fatal(err)
		}
	}
	peers := []*ringPeer{startRingPeer(t, keys[0], transports[0].listen, nil, Sources{})}
	server, stopDNS := newDNS(t, map[string][]string{
		"_dnsaddr.seed.test":    {"dnsaddr=/dnsaddr/eu.seed.test"},
		"_dnsaddr.eu.seed.test": {"dnsaddr=" + peers[0].Addrs()[0]},
	})
	seed := Sources{DNSSeeds: []string{"seed.test"}, DNSServer: server}
	for i := 1; i < len(keys); i++ {
		peers = append(peers, startRingPeer(t, keys[i], transports[i%2].listen, nil, seed))
	}
	waitFor(t, "one ring of eight", func() bool { return settled(peers) })
	checkOwners(t, peers, 200)

	gone := peers[5]
	remembered := gone.Remembered(32)
	data, err := gone.dht.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	gone.stop()
	rest := slices.Delete(slices.Clone(peers), 5, 6)
	waitFor(t, "one ring of seven", func() bool { return settled(rest) })
	checkOwners(t, rest, 50)

	stopDNS()
	memory, err := dht.ParseMemory(data)
	if err != nil {
		t.Fatal(err)
	}
	seed.Remembered = remembered
	peers[5] = startRingPeer(t, keys[5], transports[1].listen, memory, seed)
	waitFor(t, "one ring of eight again", func() bool { return settled(peers) })
	checkOwners(t, peers, 200)
}
