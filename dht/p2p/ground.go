package p2p

import (
	"context"
	"log/slog"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
)

// ground is the state that all parts of a Net share: configuration, host, and lifetime.
type ground struct {
	cfg  Config
	log  *slog.Logger
	host host.Host
	self peer.ID

	trips trips

	// life ends with Close.
	life context.Context //nolint:containedctx // of the Net, not of a caller
	end  context.CancelFunc
}

// Self returns this peer's ID.
func (g *ground) Self() peer.ID { return g.self }

// Host returns the libp2p host, for features that this package lacks.
func (g *ground) Host() host.Host { return g.host }

// Connected reports whether there is a connection to a peer.
func (g *ground) Connected(p peer.ID) bool {
	return g.host.Network().Connectedness(p) == network.Connected
}

// Connections returns the number of connections to other peers.
func (g *ground) Connections() int { return len(g.host.Network().Conns()) }

// Drop closes the connections to a peer that the ring has removed, so that calls to it end. If it
// is alive, it is dialed again.
func (g *ground) Drop(id peer.ID) { _ = g.host.Network().ClosePeer(id) }

// RoundTrip returns the minimum round-trip time of calls to a peer in the last minutes, 0 if there
// was none. The minimum excludes handshakes and disk waits.
func (g *ground) RoundTrip(p peer.ID) time.Duration { return g.trips.of(p) }
