package p2p

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/member"
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
	c.UserAgent = cmp.Or(c.UserAgent, "apoidea")
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
	n.dialer, n.reach = &dialer{ground: g, dials: newBackoffs()}, &reach{ground: g}
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
		err = kad.dht.Close()
	}
	n.dialBacks.close()
	err = errors.Join(err, n.host.Close())
	if err != nil {
		return fmt.Errorf("close network: %w", err)
	}
	return nil
}

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

// Sign returns the signature, by the peer's key, of a text that begins with its purpose; it is
// valid in this network only.
func (g *ground) Sign(text []byte) []byte {
	signature, _ := g.cfg.Identity.Sign(append(slices.Clip(text), g.cfg.Network...)) // an Ed25519 key always can
	return signature
}

// Signed reports whether a peer of this network has signed a text.
func (g *ground) Signed(by peer.ID, text, signature []byte) bool {
	return member.Signed(by, append(slices.Clip(text), g.cfg.Network...), signature)
}

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

// wireVersion is the version of every service. Protocol negotiation rejects another major version.
// It grows with storage.Format, since peers send each other stored records.
const wireVersion = "6.0.0"

// services maps service names to protocols.
type services struct{ *ground }

// Protocol returns the protocol of a service in this version.
func (v *services) Protocol(service string) protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/" + service + "/" + wireVersion)
}

// versionOf returns the version of a service that a peer of this network announces; empty if none.
func (v *services) versionOf(p peer.ID, service string) string {
	announced, _ := v.host.Peerstore().GetProtocols(p)
	for _, a := range announced {
		if version, ok := strings.CutPrefix(string(a), protocolRoot+v.cfg.Network+"/"+service+"/"); ok {
			return version
		}
	}
	return ""
}

// protocolRoot begins every protocol ID of ours.
const protocolRoot = "/apoidea/"

// speaks explains why a peer rejected a stream of a service, by the protocols that it announced.
func (v *services) speaks(to peer.ID, service string) *calls.Error {
	announced, _ := v.host.Peerstore().GetProtocols(to)
	mine, networks, other := protocolRoot+v.cfg.Network+"/", "", ""
	for _, p := range announced {
		rest, ok := strings.CutPrefix(string(p), protocolRoot)
		if !ok {
			continue
		}
		network, rest, _ := strings.Cut(rest, "/")
		if !strings.HasPrefix(string(p), mine) {
			networks = network
		} else if name, version, _ := strings.Cut(rest, "/"); name == service {
			other = version
		}
	}
	switch {
	case other != "":
		return &calls.Error{Code: calls.CodeVersion, Message: fmt.Sprintf(
			"peer %s uses version %s of %s, this peer %s: install the same release on both", to, other, service, wireVersion)}
	case networks != "":
		return &calls.Error{Code: calls.CodeVersion, Message: fmt.Sprintf(
			"peer %s is in network %q, this peer in %q: set --network", to, networks, v.cfg.Network)}
	default:
		return &calls.Error{Code: calls.CodeRefused, Message: fmt.Sprintf("peer %s does not serve %s", to, service)}
	}
}

// kadProtocol returns kad-dht's protocol for our prefix.
func (v *services) kadProtocol() protocol.ID {
	return protocol.ID(protocolRoot + v.cfg.Network + "/kad/1.0.0")
}
