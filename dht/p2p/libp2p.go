package p2p

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p"
	"github.com/libp2p/go-libp2p/core/control"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	rcmgr "github.com/libp2p/go-libp2p/p2p/host/resource-manager"
	"github.com/libp2p/go-libp2p/p2p/muxer/yamux"
	"github.com/libp2p/go-libp2p/p2p/net/connmgr"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"github.com/libp2p/go-libp2p/p2p/protocol/identify"
	"github.com/libp2p/go-libp2p/p2p/security/noise"
	quic "github.com/libp2p/go-libp2p/p2p/transport/quic"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// newHost builds the libp2p host: TCP and QUIC, Noise, yamux, and nothing that we do not use. It
// does not listen. g gets the host; with Traversal r supplies relays once it runs.
func newHost(g *ground, r *relays) (host.Host, error) {
	cfg := g.cfg
	limits, err := newLimits(cfg)
	if err != nil {
		return nil, err
	}
	manager, err := connmgr.NewConnManager(cfg.LowWater, cfg.HighWater, connmgr.WithGracePeriod(connGrace))
	if err != nil {
		return nil, fmt.Errorf("connection manager: %w", err)
	}
	known, err := newBoundedPeerstore(g.self, g.Connected)
	if err != nil {
		return nil, fmt.Errorf("peerstore: %w", err)
	}
	ranker := preferTCP
	if cfg.Profile == Public {
		ranker = newDialPace().rank
	}
	options := []libp2p.Option{
		libp2p.Identity(cfg.Identity),
		libp2p.UserAgent(cfg.UserAgent),
		libp2p.Peerstore(known),
		libp2p.Transport(tcpTransport(&cfg, limits)),
		libp2p.Transport(quic.NewTransport),
		libp2p.Security(noise.ID, noise.New),
		libp2p.Muxer(yamux.ID, yamux.DefaultTransport),
		libp2p.ConnectionManager(manager),
		libp2p.ResourceManager(limits),
		libp2p.SwarmOpts(swarm.WithDialRanker(ranker), swarm.WithDialTimeout(dialTimeout)),
		libp2p.NoListenAddrs,
		libp2p.Ping(false),
	}
	if cfg.Shape != nil {
		options = append(options, libp2p.BandwidthReporter(&reporter{cfg.Shape, g}))
	}
	if cfg.Metrics != nil {
		options = append(options, libp2p.PrometheusRegisterer(cfg.Metrics))
	} else {
		options = append(options, libp2p.DisableMetrics())
	}
	if cfg.Profile == Public {
		options = append(options, libp2p.ConnectionGater(publicOnly{}), libp2p.AddrsFactory(publicAddrs))
	} else {
		options = append(options, libp2p.AddrsFactory(labAddrs))
	}
	options = append(options, reachOptions(cfg)...)
	return libp2p.New(append(options, traversalOptions(cfg, r)...)...)
}

// reachOptions sets how the peer learns whether it can be dialed, and whether it helps others to.
// AutoNAT v1 is fixed, since its servers' answers are unverified; v2 requires proof. kad-dht
// follows the fixed value, and then SetRole.
func reachOptions(cfg Config) []libp2p.Option {
	if cfg.Reachability == ReachPublic && cfg.Profile == Lab { // loopback is never probed
		return []libp2p.Option{libp2p.ForceReachabilityPublic(), libp2p.DisableIdentifyAddressDiscovery()}
	}
	options := []libp2p.Option{libp2p.EnableAutoNATv2()}
	if cfg.Reachability == ReachPrivate {
		return append(options, libp2p.ForceReachabilityPrivate())
	}
	return append(options, libp2p.ForceReachabilityPublic())
}

const (
	// connGrace is how long a new connection is exempt from the connection manager, until the routing
	// table tags it.
	connGrace = 20 * time.Second
)

// newLimits sets the resources that libp2p spends on untrusted peers, for one of many peers on a
// small machine; libp2p's defaults scale with memory.
func newLimits(cfg Config) (*handshakeLimiter, error) {
	const memory, files = 128 << 20, 1024
	base := rcmgr.DefaultLimits
	libp2p.SetDefaultServiceLimits(&base)
	limitIdentify(&base)
	conns := rcmgr.LimitVal(2 * cfg.HighWater)
	const handshakes = 2 * (maxHandshakes + maxQUICHandshakes) // the limiter limits them; a closed one takes a moment to end
	limits := rcmgr.PartialLimitConfig{
		System: rcmgr.ResourceLimits{
			Conns: conns + handshakes, ConnsInbound: conns + handshakes, ConnsOutbound: conns, FD: conns + handshakes,
			Streams: 32 * conns, StreamsInbound: 24 * conns, StreamsOutbound: 24 * conns,
			Memory: 2 * memory,
		},
		// When a whole ring starts, all its peers dial in the same second.
		Transient: rcmgr.ResourceLimits{
			Conns: 256 + handshakes, ConnsInbound: handshakes, ConnsOutbound: 256, FD: 256 + handshakes,
			Streams: 512 + allNameless, StreamsInbound: allNameless, StreamsOutbound: 512,
		},
		ProtocolDefault: rcmgr.ResourceLimits{Streams: 8 * conns, StreamsInbound: 4 * conns, StreamsOutbound: 4 * conns},
		PeerDefault:     rcmgr.ResourceLimits{Conns: 8, ConnsInbound: 8, Streams: 128, StreamsInbound: 96, StreamsOutbound: 96},
	}
	limiter := rcmgr.NewFixedLimiter(limits.Build(base.Scale(memory, files)))
	options := []rcmgr.Option{rcmgr.WithMetricsDisabled()}
	perAddress := addressHandshakes
	if cfg.Profile == Lab {
		perAddress = maxHandshakes
		// Many peers of a lab share one address.
		anyCount := []rcmgr.ConnLimitPerSubnet{{PrefixLength: 0, ConnCount: 1 << 20}}
		options = append(options, rcmgr.WithLimitPerSubnet(anyCount, anyCount))
	}
	manager, err := rcmgr.NewResourceManager(limiter, options...)
	if err != nil {
		return nil, fmt.Errorf("resource manager: %w", err)
	}
	return &handshakeLimiter{ResourceManager: manager, perAddress: perAddress, nameless: map[peer.ID]int{}}, nil
}

// limitIdentify reserves streams for identify beside those of peers that do not finish theirs:
// libp2p allows 64 for all peers, 16 for each.
func limitIdentify(base *rcmgr.ScalingLimitConfig) {
	const all, ofPeer = 1024, 3
	of := func(n int) rcmgr.BaseLimit {
		return rcmgr.BaseLimit{StreamsInbound: n, StreamsOutbound: all, Streams: n + all, Memory: 64 << 20}
	}
	base.AddServiceLimit(identify.ServiceName, of(all), rcmgr.BaseLimitIncrease{})
	base.AddServicePeerLimit(identify.ServiceName, of(2*ofPeer), rcmgr.BaseLimitIncrease{})
	for _, id := range []protocol.ID{identify.ID, identify.IDPush} {
		base.AddProtocolLimit(id, of(all), rcmgr.BaseLimitIncrease{})
		base.AddProtocolPeerLimit(id, of(ofPeer), rcmgr.BaseLimitIncrease{})
	}
}

// preferTCP dials TCP first and QUIC after a delay: a byte over TCP costs half the CPU. Relays come
// last.
func preferTCP(addrs []ma.Multiaddr) []network.AddrDelay {
	var tcpAddrs, others, relayed []ma.Multiaddr
	for _, a := range addrs {
		switch _, err := a.ValueForProtocol(ma.P_TCP); {
		case isRelayed(a):
			relayed = append(relayed, a)
		case err == nil:
			tcpAddrs = append(tcpAddrs, a)
		default:
			others = append(others, a)
		}
	}
	var ranked []network.AddrDelay
	var after time.Duration
	for _, group := range [][]ma.Multiaddr{tcpAddrs, others, relayed} {
		for _, a := range swarm.DefaultDialRanker(group) {
			a.Delay += after
			ranked = append(ranked, a)
		}
		if len(group) > 0 {
			after += quicDelay
		}
	}
	return ranked
}

// quicDelay is the head start of TCP over QUIC: about a round trip around the world, as libp2p
// gives QUIC before TCP.
const quicDelay = 250 * time.Millisecond

// publicAddrs drops private addresses.
func publicAddrs(addrs []ma.Multiaddr) []ma.Multiaddr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a ma.Multiaddr) bool { return !manet.IsPublicAddr(a) })
}

// publicOnly refuses to dial private addresses: a reported address must not make peers scan a home
// network.
type publicOnly struct{}

func (publicOnly) InterceptPeerDial(peer.ID) bool { return true }

func (publicOnly) InterceptAddrDial(_ peer.ID, addr ma.Multiaddr) bool {
	return manet.IsPublicAddr(addr)
}

func (publicOnly) InterceptAccept(network.ConnMultiaddrs) bool { return true }

func (publicOnly) InterceptSecured(network.Direction, peer.ID, network.ConnMultiaddrs) bool {
	return true
}

func (publicOnly) InterceptUpgraded(network.Conn) (bool, control.DisconnectReason) { return true, 0 }

// ListenAll means all interfaces, TCP and QUIC, any free port; all:4001 sets the port.
const ListenAll = "all"

// ListenOn converts a listen argument, a multiaddr or ListenAll, into multiaddrs. All interfaces
// exclude IPv6 if the machine lacks it.
func ListenOn(text string) ([]string, error) {
	if addr, err := ma.NewMultiaddr(text); err == nil {
		return []string{addr.String()}, nil
	}
	word, port, fixed := strings.Cut(text, ":")
	number := uint64(0)
	var err error
	if fixed {
		number, err = strconv.ParseUint(port, 10, 16)
	}
	if word != ListenAll || err != nil {
		return nil, fmt.Errorf("listen %q: expected a multiaddr such as /ip4/0.0.0.0/tcp/4001, all or all:PORT", text)
	}
	return everywhere(uint16(number)), nil
}

// everywhere returns every interface, over TCP and QUIC, at a port.
func everywhere(port uint16) (addrs []string) {
	anyOf := []string{"/ip4/0.0.0.0"}
	if hasIPv6() {
		anyOf = append(anyOf, "/ip6/::")
	}
	for _, ip := range anyOf {
		addrs = append(addrs, fmt.Sprintf("%s/tcp/%d", ip, port), fmt.Sprintf("%s/udp/%d/quic-v1", ip, port))
	}
	return addrs
}

// hasIPv6 reports whether IPv6 sockets work: containers and old kernels may lack them.
func hasIPv6() bool {
	c, err := net.ListenPacket("udp6", "[::]:0") //nolint:noctx // a socket of this machine, closed at once
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// Elsewhere returns the multiaddrs that other machines may dial: no loopback, no link-local.
func Elsewhere(addrs []string) []string {
	return slices.DeleteFunc(slices.Clone(addrs), func(text string) bool {
		addr, err := ma.NewMultiaddr(text)
		return err != nil || onlyHere(addr)
	})
}

func onlyHere(addr ma.Multiaddr) bool {
	return manet.IsIPLoopback(addr) || manet.IsIP6LinkLocal(addr) || manet.IsIPUnspecified(addr)
}

// labAddrs returns the addresses to advertise in a lab: loopback only if there is no other, since
// it is useless to other machines.
func labAddrs(addrs []ma.Multiaddr) []ma.Multiaddr {
	if outside := slices.DeleteFunc(slices.Clone(addrs), onlyHere); len(outside) > 0 {
		return outside
	}
	return addrs
}
