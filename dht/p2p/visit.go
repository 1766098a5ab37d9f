package p2p

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht"
	members "github.com/apoidea/apoidea/dht/member"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// Visit is the result of visiting a peer like an unknown peer would.
type Visit struct {
	Address ma.Multiaddr    // that answered, without /p2p; nil if none did
	Member  bool            // it is a serving ring member
	Heard   []peer.AddrInfo // members that it named: its successor, and others; with duplicates
}

// visitTime is the timeout of a visit.
const visitTime = 15 * time.Second

// Visit connects to a peer like an unknown peer: over a new connection to these addresses that
// authenticates the peer. It asks for other ring members and disconnects.
func (n *Net) Visit(ctx context.Context, to peer.AddrInfo) (v Visit, err error) {
	ctx, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	leave := func() { n.Drop(to.ID); n.Forget(to.ID) }
	leave()
	defer leave()
	if to.Addrs = n.visitable(to.Addrs); len(to.Addrs) == 0 {
		return v, errors.New("no address may be dialed")
	}
	n.host.Peerstore().AddAddrs(to.ID, to.Addrs, peerstore.TempAddrTTL)
	n.dials.cleared(to.ID) // visitors have their own pace
	if err := n.dialer.connect(ctx, to.ID); err != nil {
		return v, errors.New(dialCause(err))
	}
	for _, c := range n.host.Network().ConnsToPeer(to.ID) {
		if c.Stat().Direction == network.DirOutbound {
			v.Address = c.RemoteMultiaddr()
		}
	}
	return v, n.askAround(ctx, to.ID, &v)
}

// visitable returns the multiaddrs that may be dialed and lead to the peer itself.
func (n *Net) visitable(addrs []ma.Multiaddr) []ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return !n.dialable(a) || isRelayed(a) })
}

// askAround asks a peer for its successor, so that a crawl of the ring can continue there, and for
// others.
func (n *Net) askAround(ctx context.Context, id peer.ID, v *Visit) error {
	transport := NewRingTransport(n)
	behind := ring.PeerKey([]byte(id)).Add(ring.Key{ring.KeySize - 1: 1})
	var heard []dht.Peer
	for _, req := range []*wire.Message{
		wire.New(&wire.Message_EntryRequest{EntryRequest: &wire.EntryRequest{}}),
		wire.New(&wire.Message_NextHopRequest{NextHopRequest: &wire.NextHopRequest{Key: behind[:]}}),
	} {
		answer, err := transport.Call(ctx, dht.Peer{ID: id}, req)
		if err != nil {
			return err
		}
		switch body := answer.GetBody().(type) {
		case *wire.Message_EntryResponse:
			v.Member = body.EntryResponse.GetState() == wire.State_STATE_SERVING
			heard = append(heard, members.List(body.EntryResponse.GetPeers())...)
		case *wire.Message_NextHopResponse:
			heard = append(heard, members.Of(body.NextHopResponse.GetHint().GetOwner()))
			heard = append(heard, members.List(body.NextHopResponse.GetCloser())...)
		default:
			return fmt.Errorf("unexpected answer: %s", answer.GetRefusal().GetText())
		}
	}
	for _, p := range heard {
		if p.ID == "" || p.ID == id || p.ID == n.self || p.Role != dht.RoleMember {
			continue
		}
		info := p.AddrInfo()
		if info.Addrs = n.visitable(info.Addrs); len(info.Addrs) > 0 {
			v.Heard = append(v.Heard, info)
		}
	}
	return nil
}
