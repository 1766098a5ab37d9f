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

// Shape limits the bandwidth of a Net. It is safe for concurrent use.
type Shape interface {
	// Conn receives each TCP connection before its use and returns the one to use instead.
	Conn(c net.Conn) net.Conn
	// Spent reports bytes over QUIC, which are not limited: sent, or received.
	Spent(sent, received int)
	// Bulk waits until n bytes of a bulk service may be sent. It is called before the write, so that
	// bulk never fills the connection ahead of urgent frames.
	Bulk(ctx context.Context, n int) error
}

// bulkPiece is the number of bytes of a bulk service per call of Bulk.
const bulkPiece = 4 << 10

// paced is a stream with paced writes.
type paced struct {
	network.Stream
	life  context.Context //nolint:containedctx // of the Net: closing it ends the wait
	shape Shape
}

// Write implements network.Stream.
func (w paced) Write(p []byte) (n int, err error) {
	for n < len(p) {
		part := p[n:min(len(p), n+bulkPiece)]
		if err := w.shape.Bulk(w.life, len(part)); err != nil {
			return n, err
		}
		// The wait for Bulk must not count against the peer.
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

// shapedUpgrader shapes all TCP connections before their handshakes.
type shapedUpgrader struct {
	transport.Upgrader
	shape Shape
}

// Upgrade implements transport.Upgrader, for dialed connections.
func (u shapedUpgrader) Upgrade(
	ctx context.Context, t transport.Transport, c manet.Conn, dir network.Direction, p peer.ID, scope network.ConnManagementScope,
) (transport.CapableConn, error) {
	shaped, err := shapedConn(u.shape, c)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", c.RemoteMultiaddr(), err)
	}
	return u.Upgrader.Upgrade(ctx, t, shaped, dir, p, scope)
}

// UpgradeGatedMaListener implements transport.Upgrader, for accepted connections.
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

// reporter counts the bytes of streams over QUIC for Shape.Spent; Conn counts TCP. Encryption and
// retransmissions of QUIC are not counted: some two percent.
type reporter struct {
	shape  Shape
	ground *ground
}

var _ metrics.Reporter = (*reporter)(nil)

// overQUIC reports whether all connections of a peer use QUIC.
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

// The rest of metrics.Reporter is unused: Stats has the figures of services.

func (*reporter) LogSentMessage(int64)                                  {}
func (*reporter) LogRecvMessage(int64)                                  {}
func (*reporter) GetBandwidthForPeer(peer.ID) (s metrics.Stats)         { return s }
func (*reporter) GetBandwidthForProtocol(protocol.ID) (s metrics.Stats) { return s }
func (*reporter) GetBandwidthTotals() (s metrics.Stats)                 { return s }
func (*reporter) GetBandwidthByPeer() map[peer.ID]metrics.Stats         { return nil }
func (*reporter) GetBandwidthByProtocol() map[protocol.ID]metrics.Stats { return nil }
func (*reporter) Reset()                                                {}
func (*reporter) TrimIdle(time.Time)                                    {}
