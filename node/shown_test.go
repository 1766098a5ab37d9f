package node

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// neighbourhood is the worker of a peer, which crawls for itself and for another owner.
type neighbourhood struct{ self, next peer.ID }

func (n *neighbourhood) Stats() worker.Stats { return worker.Stats{Pages: 5, WireBytes: 100} }

func (n *neighbourhood) Held() []worker.Held {
	return []worker.Held{
		{Host: "own.example", Owner: string(n.self), URLs: 9}, {Host: "few.example", Owner: string(n.next), URLs: 1}, {Host: "many.example", Owner: string(n.next), URLs: 3},
	}
}

// connected is what the network tells of it.
type connected struct{}

func (connected) Stats() calls.Stats {
	return calls.Stats{Services: map[string]calls.ServiceStats{"a": {BytesIn: 1, BytesOut: 2}, "b": {BytesIn: 4}}}
}

// TestShown: the page has what the worker holds for other
// owners, the busiest first, and the sums.
func TestShown(t *testing.T) {
	ids := rpctest.NewPeers(t, 3)
	n := &neighbourhood{ids[0], ids[1]}
	s := &shown{View: new(inspect.View), deps: shownDeps{
		Self: n.self, Net: connected{}, Worker: n, BandwidthCap: func() int64 { return 7 },
		Look:     func(context.Context, func(*owner.Owner)) error { return nil },
		Measured: func(string, netip.Addr) time.Duration { return time.Millisecond },
	}}
	h, err := s.Crawled(t.Context(), 1)
	if err != nil || h.Total != 2 || h.Here != 3 || len(h.Hosts) != 1 || h.Hosts[0].Host != "many.example" || h.Hosts[0].RTTMs != 1 {
		t.Errorf("%+v, %v", h, err)
	}
	s.deps.Refused = func() map[peer.ID]control.Refusals {
		return map[peer.ID]control.Refusals{ids[1]: {Requests: 9, AgoMS: 2}, ids[2]: {Requests: 1, AgoMS: 1}}
	}
	if r := s.Refused(); len(r) != 2 || r[0].Peer != ids[2].String() || r[1].Requests != 9 {
		t.Errorf("%+v", r)
	}
	if g, err := s.Gauges(t.Context()); err != nil || g.Pages != 5 || g.SiteBytes != 100 || g.PeerBytes != 7 || g.CapBps != 7 {
		t.Errorf("%+v, %v", g, err)
	}
}
