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

// Profile is the world a peer lives in.
type Profile uint8

const (
	// Lab: loopback and private networks, peers that only crash.
	Lab Profile = iota
	// Public: strangers; private addresses are neither announced nor dialled.
	Public
)

// String is public or lab.
func (p Profile) String() string {
	if p == Public {
		return "public"
	}
	return "lab"
}

// Config of a Net. Network and Identity are required, the rest has defaults.
type Config struct {
	// Network separates rings: it is part of every protocol ID. Letters,
	// digits, dots, dashes and underscores.
	Network string
	// Identity is the peer's Ed25519 key; see GenerateIdentity.
	Identity crypto.PrivKey
	// Listen holds multiaddrs, TCP or QUIC; see ListenOn. Empty: any free port, on
	// loopback in Lab and on all interfaces in Public.
	Listen []string
	// Profile chooses filters and limits.
	Profile Profile
	// UserAgent is what identify tells other peers; empty: "apoidea".
	UserAgent string
	// LowWater and HighWater bound connections: at HighWater those that matter
	// least are closed down to LowWater. 0: 160 and 192, fit for a ring peer; a
	// volunteer behind a home router takes 32 and 64.
	LowWater, HighWater int
	// Metrics is where libp2p counts what it does, for Prometheus; nil: it does not.
	Metrics prometheus.Registerer
	// Reachability says how this peer knows whether others can dial it.
	Reachability Reachability
	// Traversal asks home routers to forward the port (UPnP, NAT-PMP), has peers that nobody can
	// dial be reached through relays and by hole punching, and has members relay for such peers,
	// within bounds.
	Traversal bool
	// Dialled, if not nil, is given each TCP connection that this peer has
	// dialled and returns the one to use in its place, within the context of
	// the dial: for emulated distances. If it fails it has closed what it got.
	Dialled func(ctx context.Context, c net.Conn) (net.Conn, error)
	// Shape, if not nil, holds what comes and goes under a cap on bandwidth.
	Shape Shape
	// Bulk names the services that have time: their frames wait for Shape.Bulk, so that leases and
	// reports do not wait for them.
	Bulk []string
	// Long names the services whose answers may be long where the question is short, see
	// [calls.Endpoint.Long].
	Long []string
}

// maxNetworkName in bytes: it travels in every stream's first message.
const maxNetworkName = 64

// withDefaults checks a Config and fills in what it leaves open.
func (c Config) withDefaults() (Config, error) {
	if c.Identity == nil {
		return c, errors.New("config: Identity is missing")
	}
	wrong := func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", r)
	}
	if c.Network == "" || len(c.Network) > maxNetworkName || strings.ContainsFunc(c.Network, wrong) {
		return c, fmt.Errorf("config: Network %q: 1 to %d letters, digits, dots, dashes or underscores", c.Network, maxNetworkName)
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
		return c, fmt.Errorf("config: LowWater %d and HighWater %d: want 1 or more, and not falling", c.LowWater, c.HighWater)
	}
	if len(c.Listen) == 0 {
		c.Listen = []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
		if c.Profile == Public {
			c.Listen = everywhere(0)
		}
	}
	return c, nil
}

// Net is one peer's presence on the network. It is safe for concurrent use.
//
// It consists of parts with states of their own, each of which knows only those above it. What the
// embedded ones export is offered by the Net itself.
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
	mu     sync.Mutex // guards closed; never held over the network
	closed bool
}

// New builds a Net that listens nowhere yet: register handlers, then Listen.
// Close it even if it never ran.
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

// newParts returns a Net on a ground whose host is still to be made.
func newParts(g *ground) *Net {
	n := &Net{ground: g, addresses: &addresses{g}, conns: &conns{ground: g, protected: map[peer.ID]bool{}}, services: &services{g}}
	n.dialer, n.reach = &dialer{ground: g}, &reach{ground: g}
	n.entrance = &entrance{ground: g, addresses: n.addresses, services: n.services, dialer: n.dialer}
	n.streams = &streams{ground: g, services: n.services, dialer: n.dialer, conns: n.conns}
	return n
}

// Listen opens the ports; from then on others reach this peer. It fails unless
// every address could be opened.
func (n *Net) Listen() error {
	for _, addr := range n.listen {
		if err := n.host.Network().Listen(addr); err != nil {
			return fmt.Errorf("cannot listen on %s: %s: %s", addr, ListenCause(err), ListenCure(err))
		}
	}
	return nil
}

// Run looks after streams until ctx ends, then closes the Net.
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

// Close breaks all connections and waits until every handler has returned.
// Calls under way fail with calls.ErrClosed. Further Closes do nothing.
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
