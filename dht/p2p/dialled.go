package p2p

import (
	"context"
	"fmt"
	"net"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/transport"
	"github.com/libp2p/go-libp2p/p2p/transport/tcp"
	"github.com/libp2p/go-libp2p/p2p/transport/tcpreuse"
	manet "github.com/multiformats/go-multiaddr/net"
)

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
