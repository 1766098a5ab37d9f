package main

import (
	"context"
	"time"

	libpeer "github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/scripts/harness"
)

// joinEmpty takes part in the ring, which makes a member of it, confirms all that it is handed, and
// stores nothing. While it is there nobody crawls its hosts; when it is gone they are to be had
// again, but for what it alone received meanwhile.
func joinEmpty(ctx context.Context, t *target) {
	t.crowd(ctx, 2, func(s *stranger) {
		ring := s.claim()
		for _, service := range services {
			s.Handle(service, func(context.Context, libpeer.ID, []byte) ([]byte, error) { return nil, nil })
		}
		if err := s.Listen(); err != nil {
			return
		}
		for ctx.Err() == nil {
			s.claimTo(ctx, ring)
			_ = harness.Sleep(ctx, 500*time.Millisecond)
		}
	})
}

// services are those of a member that take records, reports and requests.
var services = []string{rpc.ServiceOwner, "job", "content", "domain", "permit", "subnets", "records", "replica"}

// claim answers all messages of the ring as a member that serves an arc.
func (s *stranger) claim() *p2p.RingTransport {
	ring := p2p.NewRingTransport(s.Net)
	ring.Serve(func(_ context.Context, _ libpeer.ID, m *wire.Message) (*wire.Message, error) {
		switch m.GetBody().(type) {
		case *wire.Message_StabilizeRequest:
			return wire.New(&wire.Message_StabilizeResponse{StabilizeResponse: &wire.StabilizeResponse{Sender: s.claimed()}}), nil
		case *wire.Message_PingRequest:
			return wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: true}}), nil
		}
		return wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: wire.Reason_REASON_BUSY}}), nil
	})
	return ring
}

// claimed is what such a member states of itself.
func (s *stranger) claimed() *wire.Neighbours {
	self := s.Peer(s.Self())
	key, list := self.Key(), member.Wire([]dht.Peer{self})
	return &wire.Neighbours{Self: self.Wire(), State: wire.State_STATE_SERVING, ServedStart: key[:], Predecessors: list, Successors: list}
}

// claimTo claims it to the peer.
func (s *stranger) claimTo(ctx context.Context, ring *p2p.RingTransport) {
	s.within(ctx, func(ctx context.Context) {
		_, _ = ring.Call(ctx, dht.NewPeer(s.of, nil), wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: s.claimed()}}))
	})
}
