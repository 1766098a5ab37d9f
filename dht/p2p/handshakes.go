package p2p

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-libp2p/core/transport"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
)

// Limits on pending handshakes: an unauthenticated connection could otherwise stay open without
// limit.
const (
	// handshakeTime is the timeout of a handshake over TCP: some round trips on a bad line.
	handshakeTime = 8 * time.Second
	// maxHandshakes is the number of pending handshakes over TCP. One more closes the oldest of the
	// network that has most, silent ones first. When a whole ring starts, all its peers dial in the
	// same second.
	maxHandshakes = 128
	// wordTime is how long a connection counts as active after its first bytes.
	wordTime = time.Second
	// addressHandshakes is the limit per address in the public profile: half of libp2p's connection
	// limit.
	addressHandshakes = 4
	// maxQUICHandshakes is the number of pending handshakes over QUIC, half of it for one network.
	// They cannot be closed from here, so one more is refused. quic-go ends idle ones after five
	// seconds.
	maxQUICHandshakes = 64
	// unprovenHandshakes is the number of QUIC handshakes without address validation; further ones are
	// validated first, which costs the client a round trip.
	unprovenHandshakes = 16
	// namelessStreams is the number of streams of one peer without a negotiated protocol; one more is
	// reset. Our streams negotiate with their first bytes. allNameless is the limit of all peers.
	namelessStreams = 24
	allNameless     = 2048
)

// handshakeLimiter is the resource manager with a limit on pending handshakes by origin. It is safe
// for concurrent use.
type handshakeLimiter struct {
	network.ResourceManager
	perAddress int // limit of handshakes over TCP

	mu       sync.Mutex   // guards the fields below
	tcp      []*handshake // oldest first
	quic     []*handshake
	nameless map[peer.ID]int // streams
}

// handshake is a pending handshake with its libp2p scope, which reports when it ends.
type handshake struct {
	network.ConnManagementScope
	limiter          *handshakeLimiter
	address, network netip.Prefix

	// Over TCP:
	conn  manet.Conn
	heard atomic.Pointer[time.Time] // time of the first bytes; nil: none yet
	timer *time.Timer               // closes it
}

// speaks reports whether bytes were received on a connection, recently enough that the handshake
// may still be pending.
func (k *handshake) speaks(now time.Time) bool {
	heard := k.heard.Load()
	return heard != nil && now.Sub(*heard) <= wordTime
}

// timedConn is a connection that records the time of the first bytes.
type timedConn struct {
	manet.Conn
	handshake *handshake
}

// Read implements net.Conn.
func (c timedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.handshake.heard.Load() == nil {
		now := time.Now()
		c.handshake.heard.Store(&now)
	}
	return n, err
}

// Done implements network.ResourceScopeSpan: the handshake failed, or the connection has ended
// since.
func (k *handshake) Done() {
	k.limiter.entered(k)
	k.ConnManagementScope.Done()
}

// SetPeer implements network.ConnManagementScope. Over QUIC the handshake has ended then; over TCP
// the multiplexer is still to be negotiated.
func (k *handshake) SetPeer(p peer.ID) error {
	if k.conn == nil {
		k.limiter.entered(k)
	}
	return k.ConnManagementScope.SetPeer(p)
}

// errTooManyPending refuses a handshake over QUIC, or a stream.
var errTooManyPending = errors.New("too many pending handshakes or unidentified streams")

// OpenConnection implements network.ResourceManager. It counts incoming QUIC connections;
// doorListener counts those over TCP.
func (d *handshakeLimiter) OpenConnection(dir network.Direction, usefd bool, from ma.Multiaddr) (network.ConnManagementScope, error) {
	if _, err := from.ValueForProtocol(ma.P_QUIC_V1); dir != network.DirInbound || err != nil || isRelayed(from) {
		return d.ResourceManager.OpenConnection(dir, usefd, from)
	}
	k := d.newHandshake(from)
	d.mu.Lock()
	crowd := len(d.quic) >= maxQUICHandshakes || count(d.quic, k.sameNetwork) >= maxQUICHandshakes/2
	if !crowd {
		d.quic = append(d.quic, k)
	}
	d.mu.Unlock()
	if crowd {
		return nil, errTooManyPending
	}
	scope, err := d.ResourceManager.OpenConnection(dir, usefd, from)
	if err != nil {
		d.entered(k)
		return nil, err
	}
	k.ConnManagementScope = scope
	return k, nil
}

// OpenStream implements network.ResourceManager. libp2p limits streams without a protocol only for
// all peers together.
func (d *handshakeLimiter) OpenStream(of peer.ID, dir network.Direction) (network.StreamManagementScope, error) {
	if dir != network.DirInbound {
		return d.ResourceManager.OpenStream(of, dir)
	}
	d.mu.Lock()
	crowd := d.nameless[of] >= namelessStreams
	if !crowd {
		d.nameless[of]++
	}
	d.mu.Unlock()
	if crowd {
		return nil, errTooManyPending
	}
	n := &nameless{done: sync.OnceFunc(func() { d.named(of) })}
	var err error
	if n.StreamManagementScope, err = d.ResourceManager.OpenStream(of, dir); err != nil {
		n.done()
		return nil, err
	}
	return n, nil
}

// named releases a stream whose protocol is negotiated, or that has ended.
func (d *handshakeLimiter) named(of peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nameless[of]--; d.nameless[of] == 0 {
		delete(d.nameless, of)
	}
}

// nameless is the scope of a stream without a negotiated protocol.
type nameless struct {
	network.StreamManagementScope
	done func()
}

// SetProtocol implements network.StreamManagementScope.
func (n *nameless) SetProtocol(id protocol.ID) error {
	n.done()
	return n.StreamManagementScope.SetProtocol(id)
}

// Done implements network.ResourceScopeSpan.
func (n *nameless) Done() {
	n.done()
	n.StreamManagementScope.Done()
}

// VerifySourceAddress implements network.ResourceManager.
func (d *handshakeLimiter) VerifySourceAddress(from net.Addr) bool {
	d.mu.Lock()
	crowd := len(d.quic) >= unprovenHandshakes
	d.mu.Unlock()
	return crowd || d.ResourceManager.VerifySourceAddress(from)
}

// admit adds a TCP connection, and closes another one if that exceeds the limit.
func (d *handshakeLimiter) admit(c manet.Conn, scope network.ConnManagementScope) *handshake {
	k := d.newHandshake(c.RemoteMultiaddr())
	k.ConnManagementScope, k.conn = scope, c
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tcp = append(d.tcp, k)
	k.timer = time.AfterFunc(handshakeTime, func() { _ = c.Close() })
	if surplus := d.surplus(k); surplus != nil {
		d.tcp = slices.DeleteFunc(d.tcp, func(other *handshake) bool { return other == surplus })
		surplus.timer.Reset(0) // closes it, outside the lock
	}
	return k
}

// surplus returns the connection to close after a new one. The lock is held.
func (d *handshakeLimiter) surplus(last *handshake) *handshake {
	if count(d.tcp, last.sameAddress) > d.perAddress {
		return first(d.tcp, last.sameAddress)
	}
	if len(d.tcp) <= maxHandshakes {
		return nil
	}
	of := make(map[netip.Prefix]int)
	most := 0
	for _, k := range d.tcp {
		of[k.network]++
		most = max(most, of[k.network])
	}
	return first(d.tcp, func(k *handshake) bool { return of[k.network] == most })
}

// first returns the oldest silent handshake, or else the oldest; the last has just arrived and
// cannot have sent anything.
func first(handshakes []*handshake, which func(*handshake) bool) (found *handshake) {
	now := time.Now()
	for i, k := range handshakes {
		switch {
		case !which(k):
		case i < len(handshakes)-1 && !k.speaks(now):
			return k
		case found == nil:
			found = k
		}
	}
	return found
}

// entered removes a connection whose handshake has succeeded or failed.
func (d *handshakeLimiter) entered(k *handshake) {
	if k.timer != nil {
		k.timer.Stop()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	is := func(other *handshake) bool { return other == k }
	d.tcp, d.quic = slices.DeleteFunc(d.tcp, is), slices.DeleteFunc(d.quic, is)
}

// newHandshake records where a connection comes from.
func (d *handshakeLimiter) newHandshake(from ma.Multiaddr) *handshake {
	k := &handshake{limiter: d}
	k.address, k.network = comesFrom(from)
	return k
}

// comesFrom returns the source address of a connection and its network, sized as one customer of a
// provider, and one company; neither is valid if unknown.
func comesFrom(from ma.Multiaddr) (address, network netip.Prefix) {
	ip, err := manet.ToIP(from)
	if err != nil {
		return address, network
	}
	addr, _ := netip.AddrFromSlice(ip)
	addr = addr.Unmap()
	one, all := 32, 24
	if addr.Is6() {
		one, all = 56, 48
	}
	address, _ = addr.Prefix(one)
	network, _ = addr.Prefix(all)
	return address, network
}

// Origin returns the network that a peer is connected from; empty if unknown, as behind a relay or
// in a private network.
func (g *ground) Origin(id peer.ID) string {
	for _, c := range g.host.Network().ConnsToPeer(id) {
		if origin := originOf(c.RemoteMultiaddr()); origin != "" {
			return origin
		}
	}
	return ""
}

func originOf(from ma.Multiaddr) string {
	if isRelayed(from) || !manet.IsPublicAddr(from) {
		return ""
	}
	_, network := comesFrom(from)
	return network.String()
}

func (k *handshake) sameAddress(other *handshake) bool { return k.address == other.address }
func (k *handshake) sameNetwork(other *handshake) bool { return k.network == other.network }

func count(handshakes []*handshake, which func(*handshake) bool) (n int) {
	for _, k := range handshakes {
		if which(k) {
			n++
		}
	}
	return n
}

// limitedUpgrader reports incoming TCP connections and completed handshakes to the
// handshakeLimiter.
type limitedUpgrader struct {
	transport.Upgrader
	limiter *handshakeLimiter
}

// UpgradeGatedMaListener implements transport.Upgrader.
func (u limitedUpgrader) UpgradeGatedMaListener(t transport.Transport, l transport.GatedMaListener) transport.Listener {
	return enteredListener{u.Upgrader.UpgradeGatedMaListener(t, limitedListener{l, u.limiter})}
}

type limitedListener struct {
	transport.GatedMaListener
	limiter *handshakeLimiter
}

// Accept implements transport.GatedMaListener.
func (l limitedListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	c, scope, err := l.GatedMaListener.Accept()
	if err != nil {
		return nil, nil, err
	}
	k := l.limiter.admit(c, scope)
	return timedConn{c, k}, k, nil
}

type enteredListener struct{ transport.Listener }

// Accept implements transport.Listener.
func (l enteredListener) Accept() (transport.CapableConn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		if k, ok := c.Scope().(*handshake); ok {
			k.limiter.entered(k)
		}
	}
	return c, err
}
