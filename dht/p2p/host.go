package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/apoidea/apoidea/dht/calls"
)

// Profile is the network environment of a peer.
type Profile uint8

const (
	// Lab: loopback and private networks, trusted peers that may crash.
	Lab Profile = iota
	// Public: untrusted peers; private addresses are neither announced nor dialed.
	Public
)

// String returns public or lab.
func (p Profile) String() string {
	if p == Public {
		return "public"
	}
	return "lab"
}

// Config configures a Net. Network and Identity are required; the other fields have defaults.
type Config struct {
	// Network separates rings: it is part of every protocol ID. Letters, digits, dots, dashes and
	// underscores.
	Network string
	// Identity is the peer's Ed25519 key; see GenerateIdentity.
	Identity crypto.PrivKey
	// Listen holds multiaddrs, TCP or QUIC; see ListenOn. Empty: any free port, on loopback in Lab and
	// on all interfaces in Public.
	Listen []string
	// Profile selects filters and limits.
	Profile Profile
	// UserAgent is sent by identify; empty: "apoidea".
	UserAgent string
	// LowWater and HighWater limit connections: at HighWater the least important are closed down to
	// LowWater. 0: 160 and 192, suitable for a ring peer; a volunteer behind a home router uses 32 and
	// 64.
	LowWater, HighWater int
	// Metrics registers libp2p's Prometheus metrics; nil disables them.
	Metrics prometheus.Registerer
	// Reachability is how this peer learns whether others can dial it.
	Reachability Reachability
	// Traversal enables port forwarding by home routers (UPnP, NAT-PMP), relays and hole punching for
	// peers that cannot be dialed, and limited relaying by members for such peers.
	Traversal bool
	// Dialled, if not nil, receives each dialed TCP connection and returns the one to use instead,
	// within the context of the dial: for emulated latency. On an error it must close the connection.
	Dialled func(ctx context.Context, c net.Conn) (net.Conn, error)
	// Shape, if not nil, limits the bandwidth.
	Shape Shape
	// Bulk lists low-priority services: their frames wait for Shape.Bulk, so that they do not delay
	// leases and reports.
	Bulk []string
	// Long lists services with answers much longer than requests, see [calls.Endpoint.Long].
	Long []string
}

// maxNetworkName is in bytes: the name is sent in every stream's first message.
const maxNetworkName = 64

// withDefaults checks a Config and sets the defaults.
func (c Config) withDefaults() (Config, error) {
	if c.Identity == nil {
		return c, errors.New("config: Identity is required")
	}
	wrong := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}
	if c.Network == "" || len(c.Network) > maxNetworkName || strings.ContainsFunc(c.Network, wrong) {
		return c, fmt.Errorf("config: Network %q: expected 1 to %d letters, digits, dots, dashes or underscores", c.Network, maxNetworkName)
	}
	if c.UserAgent == "" {
		c.UserAgent = "apoidea"
	}
	if c.LowWater == 0 && c.HighWater == 0 {
		c.LowWater, c.HighWater = 160, 192
	}
	if c.Reachability == ReachByProfile {
		c.Reachability = ReachPublic
		if c.Profile == Public {
			c.Reachability = ReachAuto
		}
	}
	if c.LowWater < 1 || c.HighWater < c.LowWater {
		return c, fmt.Errorf("config: LowWater %d and HighWater %d: expected 1 <= LowWater <= HighWater", c.LowWater, c.HighWater)
	}
	if len(c.Listen) == 0 {
		c.Listen = []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
		if c.Profile == Public {
			c.Listen = everywhere(0)
		}
	}
	return c, nil
}

// Net is one peer's endpoint on the network. It is safe for concurrent use.
//
// It is composed of parts, each of which uses only those above it. The Net exports the methods of
// the embedded ones.
type Net struct {
	*ground
	*addresses
	*conns
	*services
	*dialer
	*reach
	*entrance
	streams *streams
	calls   *calls.Endpoint

	listen []ma.Multiaddr
	mu     sync.Mutex // guards closed; never held during network I/O
	closed bool
}

// New returns a Net that does not listen yet: register handlers, then call Listen. Close it even if
// Run was never called.
func New(cfg Config, log *slog.Logger) (*Net, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := newParts(&ground{cfg: cfg, log: log})
	for _, s := range cfg.Listen {
		addr, err := ma.NewMultiaddr(s)
		if err != nil {
			return nil, fmt.Errorf("config: Listen: %w", err)
		}
		n.listen = append(n.listen, addr)
	}
	n.host, err = newHost(n.ground, &relays{ground: n.ground, addresses: n.addresses, services: n.services, dialer: n.dialer})
	if err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	if cfg.Reachability == ReachAuto {
		if n.dialBacks, err = newDialBacks(n.host); err != nil {
			return nil, errors.Join(err, n.host.Close())
		}
	}
	n.self = n.host.ID()
	n.life, n.end = context.WithCancel(context.Background())
	n.calls = calls.New(n.self, n.streams, log)
	for _, name := range cfg.Long {
		n.calls.Long(name)
	}
	n.host.Network().Notify(&network.NotifyBundle{
		ConnectedF:    func(_ network.Network, c network.Conn) { n.dials.cleared(c.RemotePeer()) },
		DisconnectedF: func(_ network.Network, c network.Conn) { n.disconnected(c.RemotePeer()) },
	})
	return n, nil
}

// newParts returns a Net without a host.
func newParts(g *ground) *Net {
	n := &Net{ground: g, addresses: &addresses{g}, conns: &conns{ground: g, protected: map[peer.ID]bool{}}, services: &services{g}}
	n.dialer, n.reach = &dialer{ground: g}, &reach{ground: g}
	n.entrance = &entrance{ground: g, addresses: n.addresses, services: n.services, dialer: n.dialer}
	n.streams = &streams{ground: g, services: n.services, dialer: n.dialer, conns: n.conns}
	return n
}

// Listen opens the ports. It fails unless every address could be opened.
func (n *Net) Listen() error {
	for _, addr := range n.listen {
		if err := n.host.Network().Listen(addr); err != nil {
			return fmt.Errorf("cannot listen on %s: %s: %s", addr, ListenCause(err), ListenCure(err))
		}
	}
	return nil
}

// Run maintains streams until ctx ends, then closes the Net.
func (n *Net) Run(ctx context.Context) error {
	tick := time.NewTicker(calls.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.calls.Sweep()
			n.dials.sweep(time.Now())
		case e := <-n.news():
			n.dialledBack(e)
		case <-ctx.Done():
			return n.Close()
		}
	}
}

// Close closes all connections and waits until every handler has returned. Pending calls fail with
// calls.ErrClosed. Further calls do nothing.
func (n *Net) Close() error {
	n.mu.Lock()
	again := n.closed
	n.closed = true
	n.mu.Unlock()
	n.end()
	n.calls.Close()
	defer n.calls.Wait()
	if again {
		return nil
	}
	var err error
	if kad := n.kad.Load(); kad != nil {
		err = kad.close()
	}
	n.dialBacks.close()
	err = errors.Join(err, n.host.Close())
	if err != nil {
		return fmt.Errorf("close network: %w", err)
	}
	return nil
}
