package p2p

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht/calls"
)

// Shape is what holds the bytes of a Net under a cap on bandwidth. Its methods are called by many
// goroutines at once.
type Shape interface {
	// Conn is given each TCP connection of either direction before it is used, and returns the one
	// to use in its place.
	Conn(c net.Conn) net.Conn
	// Spent is told of bytes over QUIC, which nothing holds back: sent, or received.
	Spent(sent, received int)
	// Bulk waits until n bytes of a bulk service may be sent. It is asked before the connection is,
	// so that what is urgent never finds it full of bulk.
	Bulk(ctx context.Context, n int) error
}

// bulkPiece is how many bytes of a bulk service are asked for at a time.
const bulkPiece = 4 << 10

// paced is a stream whose writes wait for their turn.
type paced struct {
	network.Stream
	life  context.Context //nolint:containedctx // of the Net, whose end ends the wait
	shape Shape
}

// Write implements network.Stream.
func (w paced) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+bulkPiece)]
		if err := w.shape.Bulk(w.life, len(part)); err != nil {
			return n, err
		}
		// The wait for the turn is no fault of the peer's.
		if err := w.SetWriteDeadline(time.Now().Add(calls.WriteTime)); err != nil {
			return n, err
		}
		m, err := w.Stream.Write(part)
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// shapedUpgrader has all TCP connections shaped before their handshakes.
type shapedUpgrader struct {
	transport.Upgrader
	shape Shape
}

// Upgrade implements transport.Upgrader, for the connections that are dialled.
func (u shapedUpgrader) Upgrade(
	ctx context.Context, t transport.Transport, c manet.Conn, dir network.Direction, p peer.ID, scope network.ConnManagementScope,
) (transport.CapableConn, error) {
	shaped, err := shapedConn(u.shape, c)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", c.RemoteMultiaddr(), err)
	}
	return u.Upgrader.Upgrade(ctx, t, shaped, dir, p, scope)
}

// UpgradeGatedMaListener implements transport.Upgrader, for the connections that are accepted.
func (u shapedUpgrader) UpgradeGatedMaListener(t transport.Transport, l transport.GatedMaListener) transport.Listener {
	return u.Upgrader.UpgradeGatedMaListener(t, shapedListener{l, u.shape})
}

type shapedListener struct {
	transport.GatedMaListener
	shape Shape
}

// Accept implements transport.GatedMaListener.
func (l shapedListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	c, scope, err := l.GatedMaListener.Accept()
	if err != nil {
		return nil, nil, err
	}
	shaped, err := shapedConn(l.shape, c)
	if err != nil {
		scope.Done()
		return nil, nil, err
	}
	return shaped, scope, nil
}

func shapedConn(shape Shape, c manet.Conn) (manet.Conn, error) {
	shaped, err := manet.WrapNetConn(shape.Conn(c))
	if err != nil {
		_ = c.Close()
	}
	return shaped, err
}

// reporter hears of the bytes of all streams and tells of those that no connection of ours has
// counted: they go over QUIC. What a stream carries is counted, and neither its encryption nor what
// QUIC repeats: some two parts of a hundred.
type reporter struct {
	shape  Shape
	ground *ground
}

var _ metrics.Reporter = (*reporter)(nil)

// overQUIC says whether a peer is connected that way, and no other.
func (r *reporter) overQUIC(p peer.ID) bool {
	for _, c := range r.ground.host.Network().ConnsToPeer(p) {
		if _, err := c.RemoteMultiaddr().ValueForProtocol(ma.P_QUIC_V1); err != nil {
			return false
		}
	}
	return true
}

// LogSentMessageStream implements metrics.Reporter.
func (r *reporter) LogSentMessageStream(n int64, _ protocol.ID, p peer.ID) {
	if n > 0 && r.overQUIC(p) {
		r.shape.Spent(int(n), 0)
	}
}

// LogRecvMessageStream implements metrics.Reporter.
func (r *reporter) LogRecvMessageStream(n int64, _ protocol.ID, p peer.ID) {
	if n > 0 && r.overQUIC(p) {
		r.shape.Spent(0, int(n))
	}
}

// The rest of metrics.Reporter is not asked for: Stats has the figures of services.

func (*reporter) LogSentMessage(int64)                                  {}
func (*reporter) LogRecvMessage(int64)                                  {}
func (*reporter) GetBandwidthForPeer(peer.ID) (s metrics.Stats)         { return s }
func (*reporter) GetBandwidthForProtocol(protocol.ID) (s metrics.Stats) { return s }
func (*reporter) GetBandwidthTotals() (s metrics.Stats)                 { return s }
func (*reporter) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (*reporter) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (*reporter) Reset()                                                {}
func (*reporter) TrimIdle(time.Time)                                    {}
