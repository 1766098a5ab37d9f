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
		say := func() *wire.Neighbours {
			self := s.Peer(s.Self())
			key, list := self.Key(), member.Wire([]dht.Peer{self})
			return &wire.Neighbours{Self: self.Wire(), State: wire.State_STATE_SERVING, ServedStart: key[:], Predecessors: list, Successors: list}
		}
		ring := p2p.NewRingTransport(s.Net)
		ring.Serve(func(_ context.Context, _ libpeer.ID, m *wire.Message) (*wire.Message, error) {
			switch m.GetBody().(type) {
			case *wire.Message_StabilizeRequest:
				return wire.New(&wire.Message_StabilizeResponse{StabilizeResponse: &wire.StabilizeResponse{Sender: say()}}), nil
			case *wire.Message_PingRequest:
				return wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{Reachable: true}}), nil
			}
			return wire.New(&wire.Message_Refusal{Refusal: &wire.Refusal{Reason: wire.Reason_REASON_BUSY}}), nil
		})
		for _, service := range []string{rpc.ServiceOwner, "job", "content", "domain", "permit", "subnets", "records", "replica"} {
			s.Handle(service, func(context.Context, libpeer.ID, []byte) ([]byte, error) { return nil, nil })
		}
		if err := s.Listen(); err != nil {
			return
		}
		for ctx.Err() == nil {
			within, cancel := context.WithTimeout(ctx, callTime)
			_, _ = ring.Call(within, dht.NewPeer(s.of, nil), wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: say()}}))
			cancel()
			_ = harness.Sleep(ctx, 500*time.Millisecond)
		}
	})
}
