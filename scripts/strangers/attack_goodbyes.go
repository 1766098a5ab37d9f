package main

import (
	"context"
	"fmt"
	"strings"

	libpeer "github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/wire"
)

// attackGoodbyes says goodbye to a peer that never met it, again and again, and names peers that it
// made up at addresses of a hundred parts. If they are noted, memory grows, and there is no room
// for the addresses of others.
var attackGoodbyes = attack{
	name: "goodbyes", does: "goodbyes that name made-up peers at long addresses",
	make: func(ctx context.Context, t *target) error {
		addr, err := ma.NewMultiaddr("/ip4/127.0.0.1/udp/9" + strings.Repeat("/quic-v1", 100))
		if err != nil {
			return err
		}
		return t.crowd(ctx, identities, func(s *stranger) {
			ring := p2p.NewRingTransport(s.Net)
			for n := 0; ctx.Err() == nil; {
				made := make([]dht.Peer, wire.MaxPeers)
				for i := range made {
					n++
					made[i] = dht.NewPeer(libpeer.ID(fmt.Sprintf("%s%d", s.Self(), n)), [][]byte{addr.Bytes()})
				}
				within, cancel := context.WithTimeout(ctx, callTime)
				_, _ = ring.Call(within, dht.NewPeer(s.of, nil), wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: &wire.Neighbours{
					Self: dht.NewPeer(s.Self(), nil).Wire(), State: wire.State_STATE_LEAVING, Successors: member.Wire(made),
				}}}))
				cancel()
			}
		})
	},
}
