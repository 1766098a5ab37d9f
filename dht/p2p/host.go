package p2p

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/apoidea/apoidea/dht"
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
	// Traversal asks home routers to forward the port (UPnP, NAT-PMP), has peers that nobody can dial be reached through relays and by hole
	// punching, and has members relay for such peers, within bounds.
	Traversal bool
	// Dialled, if not nil, is given each TCP connection that this peer has
	// dialled and returns the one to use in its place, within the context of
	// the dial: for emulated distances. If it fails it has closed what it got.
	Dialled func(ctx context.Context, c net.Conn) (net.Conn, error)
	// Shape, if not nil, holds what comes and goes under a cap on bandwidth.
	Shape Shape
	// Bulk names the services that have time: their frames wait for Shape.Bulk, so that leases and reports do not wait for them.
	Bulk []string
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
type Net struct {
	cfg    Config
	listen []ma.Multiaddr
	log    *slog.Logger
	host   host.Host
	self   peer.ID

	// life ends with Close. It is kept here because streams and handlers belong
	// to the Net and not to whoever's call happened to open them.
	life context.Context //nolint:containedctx // see above
	end  context.CancelFunc
	wg   sync.WaitGroup // every goroutine of this package

	services sync.Map // name -> *service
	large    largeBytes
	dials    backoffs
	kad      atomic.Pointer[Kad]
	// dialBacks is nil unless Reachability is ReachAuto.
	dialBacks *dialBacks

	mu           sync.Mutex // guards what follows; never held over the network
	out          map[streamKey]*outSlot
	in           map[streamKey][]*inStream
	onDisconnect []func(peer.ID)
	protected    map[peer.ID]bool
	reachable    []ma.Multiaddr // own addresses that others dialled last
	reachability dht.Reachability
	closed       bool
}

// New builds a Net that listens nowhere yet: register handlers, then Listen.
// Close it even if it never ran.
func New(cfg Config, log *slog.Logger) (*Net, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	n := &Net{
		cfg: cfg, log: log,
		out: map[streamKey]*outSlot{}, in: map[streamKey][]*inStream{}, protected: map[peer.ID]bool{},
	}
	for _, s := range cfg.Listen {
		addr, err := ma.NewMultiaddr(s)
		if err != nil {
			return nil, fmt.Errorf("config: Listen: %w", err)
		}
		n.listen = append(n.listen, addr)
	}
	if n.host, err = newHost(cfg, n); err != nil {
		return nil, fmt.Errorf("network: %w", err)
	}
	if cfg.Reachability == ReachAuto {
		if n.dialBacks, err = newDialBacks(n.host); err != nil {
			return nil, errors.Join(err, n.host.Close())
		}
	}
	n.self = n.host.ID()
	n.life, n.end = context.WithCancel(context.Background())
	n.host.Network().Notify(&network.NotifyBundle{
		ConnectedF:    func(_ network.Network, c network.Conn) { n.dials.cleared(c.RemotePeer()) },
		DisconnectedF: func(_ network.Network, c network.Conn) { n.disconnected(c.RemotePeer()) },
	})
	return n, nil
}

// Listen opens the ports; from then on others reach this peer. It fails unless
// every address could be opened.
func (n *Net) Listen() error {
	for _, addr := range n.listen {
		if err := n.host.Network().Listen(addr); err != nil {
			return fmt.Errorf("listen on %s: %w", addr, err)
		}
	}
	return nil
}

// Run looks after streams until ctx ends, then closes the Net.
func (n *Net) Run(ctx context.Context) error {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			n.sweep()
		case e := <-n.news():
			n.dialledBack(e)
		case <-ctx.Done():
			return n.Close()
		}
	}
}

// Close breaks all connections and waits until every handler has returned.
// Calls under way fail with ErrClosed. Further Closes do nothing.
func (n *Net) Close() error {
	n.mu.Lock()
	if n.closed {
		n.mu.Unlock()
		n.wg.Wait()
		return nil
	}
	n.closed = true
	var outs []*outStream
	for _, slot := range n.out {
		if st := slot.opened(); st != nil {
			outs = append(outs, st)
		}
	}
	for _, streams := range n.in {
		for _, st := range streams {
			_ = st.s.Reset()
		}
	}
	n.mu.Unlock()
	n.end()
	for _, st := range outs {
		st.end(ErrClosed)
	}
	var err error
	if kad := n.kad.Load(); kad != nil {
		err = kad.close()
	}
	n.dialBacks.close()
	err = errors.Join(err, n.host.Close())
	n.wg.Wait()
	if err != nil {
		return fmt.Errorf("close network: %w", err)
	}
	return nil
}

// Self is this peer's name.
func (n *Net) Self() peer.ID { return n.self }

// Host is the libp2p host, for what this package does not offer.
func (n *Net) Host() host.Host { return n.host }

// OnDisconnect registers f to be called when the last connection to a peer is
// gone. f must not block.
func (n *Net) OnDisconnect(f func(peer.ID)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.onDisconnect = append(n.onDisconnect, f)
}

func (n *Net) disconnected(p peer.ID) {
	if n.host.Network().Connectedness(p) == network.Connected {
		return
	}
	n.mu.Lock()
	hooks, closed := n.onDisconnect, n.closed
	n.mu.Unlock()
	if closed {
		return
	}
	for _, f := range hooks {
		f(p)
	}
}

// Connected says whether there is a connection to a peer at present.
func (n *Net) Connected(p peer.ID) bool {
	return n.host.Network().Connectedness(p) == network.Connected
}

// protectTag names our protection in the connection manager.
const protectTag = "leafset"

// Drop closes the connections to a peer that the ring has given up, so that calls which wait for it end. Should it be alive it is dialled anew.
func (n *Net) Drop(id peer.ID) { _ = n.host.Network().ClosePeer(id) }

// Protect keeps the connections to these peers, and to no others that an
// earlier Protect named, from being closed when there are too many.
func (n *Net) Protect(ids []peer.ID) {
	manager := n.host.ConnManager()
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.protected
	n.protected = make(map[peer.ID]bool, len(ids))
	for _, id := range ids {
		n.protected[id] = true
		if !old[id] {
			manager.Protect(id, protectTag)
		}
	}
	for id := range old {
		if !n.protected[id] {
			manager.Unprotect(id, protectTag)
		}
	}
}

// Connect makes sure that there is a connection, dialling the addresses known
// of the peer, or those that the membership finds. The error is ErrUnreachable.
func (n *Net) Connect(ctx context.Context, to peer.ID) error {
	if to == n.self {
		return nil
	}
	return n.connect(ctx, to)
}

func (n *Net) connect(ctx context.Context, to peer.ID) error {
	if n.Connected(to) {
		return nil
	}
	if cause := n.dials.wait(to, time.Now()); cause != nil {
		return &unreachable{to, fmt.Errorf("tried a moment ago: %w", cause)}
	}
	target := peer.AddrInfo{ID: to}
	kad := n.kad.Load()
	if kad != nil && len(n.host.Peerstore().Addrs(to)) == 0 {
		if found, err := kad.dht.FindPeer(ctx, to); err == nil {
			target = found
		}
	}
	// libp2p's own back-off starts at five seconds; ours decides.
	if s, ok := n.host.Network().(*swarm.Swarm); ok {
		s.Backoff().Clear(to)
	}
	err := n.dialOrMeet(ctx, target)
	switch {
	case err == nil:
		return nil
	case n.life.Err() != nil:
		return ErrClosed
	case ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded):
		n.dials.failed(to, time.Now(), err)
		if kad != nil {
			kad.forget(to)
		}
	}
	return &unreachable{to, err}
}

// dialOrMeet dials a peer until that succeeds, fails, or the peer itself has dialled. One that came back at another port would otherwise be out of
// reach for as long as the dial of its old one takes, which over UDP nobody refuses.
func (n *Net) dialOrMeet(ctx context.Context, to peer.AddrInfo) error {
	dial, cancel := context.WithCancel(ctx)
	defer cancel()
	met := &network.NotifyBundle{ConnectedF: func(_ network.Network, c network.Conn) {
		if c.RemotePeer() == to.ID && c.Stat().Direction == network.DirInbound && !c.Stat().Limited {
			cancel()
		}
	}}
	n.host.Network().Notify(met)
	defer n.host.Network().StopNotify(met)
	if n.Connected(to.ID) {
		return nil
	}
	err := n.host.Connect(dial, to)
	switch {
	case err == nil || n.Connected(to.ID):
		return nil
	case dial.Err() != nil && ctx.Err() == nil:
		return errHungUp // no end of the caller's context, which its error must not look like
	default:
		return err
	}
}

// errHungUp ends a dial of a peer that dialled meanwhile and closed the connection at once.
var errHungUp = errors.New("it dialled, and hung up")

// RoundTrip is the smoothed time of libp2p exchanges with a peer, 0 if unknown.
func (n *Net) RoundTrip(p peer.ID) time.Duration { return n.host.Peerstore().LatencyEWMA(p) }

// metAddrTTL is how long an address that somebody told us is kept when the peer
// is never connected to; each mention renews it.
const metAddrTTL = 30 * time.Minute

// maxMetAddrs of one peer are taken from one message.
const maxMetAddrs = 16

// Met notes addresses of a peer, binary multiaddrs as other peers tell them.
// What does not parse, and in Public what is not a public address, is left out.
func (n *Net) Met(id peer.ID, addrs [][]byte) {
	if id == n.self || len(addrs) == 0 {
		return
	}
	known := make([]ma.Multiaddr, 0, len(addrs))
	for _, b := range addrs[:min(len(addrs), maxMetAddrs)] {
		if addr, err := ma.NewMultiaddrBytes(b); err == nil && n.dialable(addr) {
			known = append(known, addr)
		}
	}
	n.host.Peerstore().AddAddrs(id, known, metAddrTTL)
}

// Addrs returns this peer's own dialable multiaddrs, each ending in /p2p/<peer>.
func (n *Net) Addrs() []string {
	s := n.AddrsOf(n.self)
	for i := range s {
		s[i] += "/p2p/" + n.self.String()
	}
	return s
}

// AddrsOf returns the known multiaddrs of a peer, without /p2p: those of live
// connections and what others told.
func (n *Net) AddrsOf(id peer.ID) []string {
	addrs := n.addrsOf(id)
	s := make([]string, len(addrs))
	for i, a := range addrs {
		s[i] = a.String()
	}
	return s
}

func (n *Net) addrsOf(id peer.ID) []ma.Multiaddr {
	if id == n.self {
		return n.host.Addrs()
	}
	return n.host.Peerstore().Addrs(id)
}

// Forget drops what is known of a peer's addresses unless it is connected.
func (n *Net) Forget(id peer.ID) {
	if !n.Connected(id) {
		n.host.Peerstore().UpdateAddrs(id, peerstore.PermanentAddrTTL, 0)
		n.host.Peerstore().ClearAddrs(id)
	}
}

// Connections is how many connections to other peers there are.
func (n *Net) Connections() int { return len(n.host.Network().Conns()) }
