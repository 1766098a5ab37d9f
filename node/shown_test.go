package node

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/crawl/worker"
	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/ops/inspect"
	"github.com/apoidea/apoidea/node/services/rpc/rpctest"
)

// neighbourhood is a peer with one neighbour on both sides and one worker that is attached, as its
// page asks.
type neighbourhood struct{ self, next, attached dht.Peer }

func (n *neighbourhood) Self() dht.Peer { return n.self }
func (n *neighbourhood) Size() int      { return 2 }
func (n *neighbourhood) Arc() (ring.Arc, bool) {
	return ring.Arc{Start: n.next.Key(), End: n.self.Key()}, true
}

func (n *neighbourhood) Leaves() (preds, succs []dht.Peer) {
	return []dht.Peer{n.next}, []dht.Peer{n.next}
}
func (n *neighbourhood) Members() []dht.Peer     { return []dht.Peer{n.next} }
func (n *neighbourhood) Attached() []dht.Peer    { return []dht.Peer{n.attached} }
func (n *neighbourhood) Attachments() []dht.Peer { return []dht.Peer{n.next} }

func (n *neighbourhood) LeafSet() []dht.Leaf {
	return []dht.Leaf{{Peer: n.next, Serves: true, Arc: ring.Arc{Start: n.self.Key(), End: n.next.Key()}}}
}

func (n *neighbourhood) Stats() worker.Stats { return worker.Stats{Pages: 5, WireBytes: 100} }

func (n *neighbourhood) Held() []worker.Held {
	return []worker.Held{
		{Host: "own.example", Owner: string(n.self.ID), URLs: 9}, {Host: "few.example", Owner: string(n.next.ID), URLs: 1}, {Host: "many.example", Owner: string(n.next.ID), URLs: 3},
	}
}

// connected is what the network tells of it.
type connected struct{}

func (connected) RoundTrip(peer.ID) time.Duration { return 20 * time.Millisecond }
func (connected) AddrsOf(peer.ID) []string        { return []string{"/ip4/192.0.2.1/tcp/1"} }

func (connected) Stats() calls.Stats {
	return calls.Stats{Services: map[string]calls.ServiceStats{"a": {BytesIn: 1, BytesOut: 2}, "b": {BytesIn: 4}}}
}

// TestShown: the page has the neighbours with their sides and arcs, what the worker holds for other
// owners, the busiest first, and the sums.
func TestShown(t *testing.T) {
	ids := rpctest.NewPeers(t, 3)
	n := &neighbourhood{dht.Peer{ID: ids[0]}, dht.Peer{ID: ids[1]}, dht.Peer{ID: ids[2]}}
	s := &shown{View: new(inspect.View), deps: shownDeps{
		Ring: n, Net: connected{}, Worker: n, BandwidthCap: func() int64 { return 7 },
		Look:     func(context.Context, func(*owner.Owner)) error { return nil },
		Measured: func(string, netip.Addr) time.Duration { return time.Millisecond },
	}}
	c, err := s.Circle(t.Context())
	if err != nil || c.Size != 2 || !c.Self.Serves || len(c.Others) != 1 || len(c.Attached) != 1 {
		t.Fatalf("%+v, %v", c, err)
	}
	if o := c.Others[0]; !o.Leaf || !o.Serves || o.Side != "predecessor, successor, attached" || o.RTTMs != 20 || o.Addr == "" || o.ArcFrom != c.Self.At {
		t.Errorf("the neighbour is %+v", o)
	}
	h, err := s.Crawled(t.Context(), 1)
	if err != nil || h.Total != 2 || h.Here != 3 || len(h.Hosts) != 1 || h.Hosts[0].Name != "many.example" || h.Hosts[0].RTT != time.Millisecond {
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
