package p2p

import (
	"context"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// ground is what all parts of a Net stand on: what it was made with, its host, and how long it
// lives.
type ground struct {
	cfg  Config
	log  *slog.Logger
	host host.Host
	self peer.ID

	trips trips

	// life ends with Close.
	life context.Context //nolint:containedctx // of the Net, not of whoever calls
	end  context.CancelFunc
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

// Drop closes the connections to a peer that the ring has given up, so that calls which wait for it
// end. Should it be alive it is dialled anew.
func (g *ground) Drop(id peer.ID) { _ = g.host.Network().ClosePeer(id) }

// RoundTrip is the least time that a peer took to answer a call in the last minutes, 0 if it was
// not called. Handshakes and calls that waited for a disk took longer, and do not show.
func (g *ground) RoundTrip(p peer.ID) time.Duration { return g.trips.of(p) }
