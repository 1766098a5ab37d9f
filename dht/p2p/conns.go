package p2p

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/metrics"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"github.com/apoidea/apoidea/dht/calls"
)

// conns decides which connections are kept, and notifies when the last to a peer is gone.
type conns struct {
	*ground

	mu           sync.Mutex // guards the fields below
	onDisconnect []func(peer.ID)
	protected    map[peer.ID]bool // true for a ring neighbor
}

// protectTag is our tag in the connection manager.
const protectTag = "leafset"

// Protect exempts the connections to ring neighbors and others (claimed neighbors, attached
// workers) from closing at the connection limit, and no earlier ones. Only neighbors have reserved
// limits, see [calls.Network]: any peer can become one of the others.
func (c *conns) Protect(neighbours, others []peer.ID) {
	manager := c.host.ConnManager()
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.protected
	c.protected = make(map[peer.ID]bool, len(neighbours)+len(others))
	for _, id := range others {
		c.protected[id] = false
	}
	for _, id := range neighbours {
		c.protected[id] = true
	}
	for id := range c.protected {
		if _, was := old[id]; !was {
			manager.Protect(id, protectTag)
		}
	}
	for id := range old {
		if _, is := c.protected[id]; !is {
			manager.Unprotect(id, protectTag)
		}
	}
}

// neighbour reports whether Protect named a peer as a neighbor.
func (c *conns) neighbour(id peer.ID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.protected[id]
}

// OnDisconnect registers f to be called when the last connection to a peer is gone. f must not
// block.
func (c *conns) OnDisconnect(f func(peer.ID)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onDisconnect = append(c.onDisconnect, f)
}

// disconnected calls the hooks, unless there is another connection or the Net is closed.
func (c *conns) disconnected(p peer.ID) {
	if c.Connected(p) || c.life.Err() != nil {
		return
	}
	c.mu.Lock()
	hooks := c.onDisconnect
	c.mu.Unlock()
	for _, f := range hooks {
		f(p)
	}
}

// tcpTransport returns the constructor of the TCP transport, with Config.Dialled before handshakes
// if set, and the handshake limiter for incoming connections.
func tcpTransport(cfg *Config, at *handshakeLimiter) func(transport.Upgrader, network.ResourceManager, *tcpreuse.ConnMgr) (*tcp.TcpTransport, error) {
	return func(u transport.Upgrader, limits network.ResourceManager, shared *tcpreuse.ConnMgr) (*tcp.TcpTransport, error) {
		if cfg.Dialled != nil {
			u = dialledUpgrader{u, cfg.Dialled}
		}
		if cfg.Shape != nil {
			u = shapedUpgrader{u, cfg.Shape}
		}
		u = limitedUpgrader{u, at}
		if cfg.Traversal { // dial from the listening port, so that others see the port for hole punching
			return tcp.NewTCPTransport(u, limits, shared)
		}
		return tcp.NewTCPTransport(u, limits, shared, tcp.DisableReuseport())
	}
}

// dialledUpgrader runs between connect and handshake, the only point where the connection exists
// and is unused.
type dialledUpgrader struct {
	transport.Upgrader
	dialled func(ctx context.Context, c net.Conn) (net.Conn, error)
}

// Upgrade implements transport.Upgrader.
func (u dialledUpgrader) Upgrade(
	ctx context.Context, t transport.Transport, c manet.Conn, dir network.Direction, p peer.ID, scope network.ConnManagementScope,
) (transport.CapableConn, error) {
	if dir == network.DirOutbound {
		changed, err := u.dialled(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("dial %s: %w", c.RemoteMultiaddr(), err)
		}
		wrapped, err := manet.WrapNetConn(changed)
		if err != nil {
			_ = changed.Close()
			return nil, fmt.Errorf("dial %s: %w", c.RemoteMultiaddr(), err)
		}
		c = wrapped
	}
	return u.Upgrader.Upgrade(ctx, t, c, dir, p, scope)
}

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
