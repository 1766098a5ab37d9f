package p2p

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
)

// ground is what all parts of a Net stand on: what it was made with, its host, and how long it lives.
type ground struct {
	cfg  Config
	log  *slog.Logger
	host host.Host
	self peer.ID

	// life ends with Close. It is kept here because streams and handlers belong
	// to the Net and not to whoever's call happened to open them.
	life context.Context //nolint:containedctx // see above
	end  context.CancelFunc
	wg   sync.WaitGroup // every goroutine of this package
}

// Self is this peer's name.
func (g *ground) Self() peer.ID { return g.self }

// Host is the libp2p host, for what this package does not offer.
func (g *ground) Host() host.Host { return g.host }

// Connected says whether there is a connection to a peer at present.
func (g *ground) Connected(p peer.ID) bool {
	return g.host.Network().Connectedness(p) == network.Connected
}

// Connections is how many connections to other peers there are.
func (g *ground) Connections() int { return len(g.host.Network().Conns()) }

// Drop closes the connections to a peer that the ring has given up, so that calls which wait for it end. Should it be alive it is dialled anew.
func (g *ground) Drop(id peer.ID) { _ = g.host.Network().ClosePeer(id) }

// RoundTrip is the smoothed time of libp2p exchanges with a peer, 0 if unknown.
func (g *ground) RoundTrip(p peer.ID) time.Duration { return g.host.Peerstore().LatencyEWMA(p) }

// bulky says whether frames of a service have time.
func (g *ground) bulky(svc *service) bool {
	return g.cfg.Shape != nil && slices.Contains(g.cfg.Bulk, svc.name)
}

// writerOf is where the frames of a service go.
func (g *ground) writerOf(svc *service, s network.Stream) io.Writer {
	if g.bulky(svc) {
		return paced{s, g.life, g.cfg.Shape}
	}
	return s
}

// newStream opens a stream over a direct connection. Where there is one through a relay only, it waits a while for the hole to be punched and then
// takes that: slow and short-lived, and better than nothing.
func (g *ground) newStream(ctx context.Context, to peer.ID, id protocol.ID) (network.Stream, error) {
	if g.host.Network().Connectedness(to) != network.Limited {
		return g.host.NewStream(ctx, to, id)
	}
	punch, cancel := context.WithTimeout(ctx, punchTime)
	defer cancel()
	if s, err := g.host.NewStream(punch, to, id); err == nil || isNotSupported(err) {
		return s, err
	}
	return g.host.NewStream(network.WithAllowLimitedConn(ctx, "no direct way"), to, id)
}
