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

// Whoever connects is nobody's peer until the handshake has ended, and could wait at the door for
// ever.
const (
	// handshakeTime is what a handshake over TCP may take: some round trips of a bad line.
	handshakeTime = 8 * time.Second
	// maxKnocks connections over TCP may be in their handshakes; one more, and the oldest of the
	// network that has the most is closed, of those that say nothing if there are any. A ring that
	// starts at once dials everybody in the same second.
	maxKnocks = 128
	// wordTime is for how long a connection over which something came counts as one that says
	// something.
	wordTime = time.Second
	// addressKnocks of one address may, in the public profile: half of what libp2p lets it have.
	addressKnocks = 4
	// maxQUICKnocks over QUIC may be, and half as many of one network. They cannot be closed from
	// here, so one more is refused. quic-go ends them after five seconds without a word.
	maxQUICKnocks = 64
	// unprovenKnocks over QUIC are let in at their word of where they come from; further ones prove
	// it first, which costs them a round trip and us nothing.
	unprovenKnocks = 16
	// namelessStreams of one peer may be open of which nobody knows the protocol yet; one more is
	// reset. Ours name it with their first bytes. allNameless are those of all peers.
	namelessStreams = 24
	allNameless     = 2048
)

// door is the resource manager with a bound on connections that are in their handshakes, by where
// they come from. Safe for concurrent use.
type door struct {
	network.ResourceManager
	perAddress int // of knocks over TCP

	mu       sync.Mutex // guards what follows
	tcp      []*knock   // oldest first
	quic     []*knock
	nameless map[peer.ID]int // streams
}

// knock is a connection in its handshake, and the scope that libp2p keeps of it, which tells when
// that ends.
type knock struct {
	network.ConnManagementScope
	door             *door
	address, network netip.Prefix

	// Over TCP:
	conn  manet.Conn
	heard atomic.Pointer[time.Time] // when something came over it first; nil: nothing yet
	timer *time.Timer               // closes it
}

// speaks says that something came over a connection, not so long ago that the handshake should have
// ended since.
func (k *knock) speaks(now time.Time) bool {
	heard := k.heard.Load()
	return heard != nil && now.Sub(*heard) <= wordTime
}

// heardConn is a connection that notes when something came over it first.
type heardConn struct {
	manet.Conn
	knock *knock
}

// Read implements net.Conn.
func (c heardConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 && c.knock.heard.Load() == nil {
		now := time.Now()
		c.knock.heard.Store(&now)
	}
	return n, err
}

// Done implements network.ResourceScopeSpan: the handshake failed, or the connection has ended
// since.
func (k *knock) Done() {
	k.door.entered(k)
	k.ConnManagementScope.Done()
}

// SetPeer implements network.ConnManagementScope. Over QUIC the handshake has ended then; over TCP
// the streams are still to be agreed upon.
func (k *knock) SetPeer(p peer.ID) error {
	if k.conn == nil {
		k.door.entered(k)
	}
	return k.ConnManagementScope.SetPeer(p)
}

// errCrowd refuses a handshake over QUIC, or a stream.
var errCrowd = errors.New("too many at once, of which nobody knows what they are for")

// OpenConnection implements network.ResourceManager. What comes in over QUIC knocks here; who comes
// over TCP does in doorListener.
func (d *door) OpenConnection(dir network.Direction, usefd bool, from ma.Multiaddr) (network.ConnManagementScope, error) {
	if _, err := from.ValueForProtocol(ma.P_QUIC_V1); dir != network.DirInbound || err != nil || isRelayed(from) {
		return d.ResourceManager.OpenConnection(dir, usefd, from)
	}
	k := d.newKnock(from)
	d.mu.Lock()
	crowd := len(d.quic) >= maxQUICKnocks || count(d.quic, k.sameNetwork) >= maxQUICKnocks/2
	if !crowd {
		d.quic = append(d.quic, k)
	}
	d.mu.Unlock()
	if crowd {
		return nil, errCrowd
	}
	scope, err := d.ResourceManager.OpenConnection(dir, usefd, from)
	if err != nil {
		d.entered(k)
		return nil, err
	}
	k.ConnManagementScope = scope
	return k, nil
}

// OpenStream implements network.ResourceManager: libp2p bounds the streams without a protocol of
// all peers together only.
func (d *door) OpenStream(of peer.ID, dir network.Direction) (network.StreamManagementScope, error) {
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
		return nil, errCrowd
	}
	n := &nameless{done: sync.OnceFunc(func() { d.named(of) })}
	var err error
	if n.StreamManagementScope, err = d.ResourceManager.OpenStream(of, dir); err != nil {
		n.done()
		return nil, err
	}
	return n, nil
}

// named forgets a stream whose protocol is known, or that has ended.
func (d *door) named(of peer.ID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.nameless[of]--; d.nameless[of] == 0 {
		delete(d.nameless, of)
	}
}

// nameless is the scope of a stream of which nobody knows the protocol yet.
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
func (d *door) VerifySourceAddress(from net.Addr) bool {
	d.mu.Lock()
	crowd := len(d.quic) >= unprovenKnocks
	d.mu.Unlock()
	return crowd || d.ResourceManager.VerifySourceAddress(from)
}

// knocked notes a connection over TCP, and closes another where that is one too many.
func (d *door) knocked(c manet.Conn, scope network.ConnManagementScope) *knock {
	k := d.newKnock(c.RemoteMultiaddr())
	k.ConnManagementScope, k.conn = scope, c
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tcp = append(d.tcp, k)
	k.timer = time.AfterFunc(handshakeTime, func() { _ = c.Close() })
	if surplus := d.surplus(k); surplus != nil {
		d.tcp = slices.DeleteFunc(d.tcp, func(other *knock) bool { return other == surplus })
		surplus.timer.Reset(0) // closes it, and not under the lock
	}
	return k
}

// surplus is the connection to close after a new one. Called with the lock held.
func (d *door) surplus(last *knock) *knock {
	if count(d.tcp, last.sameAddress) > d.perAddress {
		return first(d.tcp, last.sameAddress)
	}
	if len(d.tcp) <= maxKnocks {
		return nil
	}
	of := make(map[netip.Prefix]int)
	most := 0
	for _, k := range d.tcp {
		of[k.network]++
		most = max(most, of[k.network])
	}
	return first(d.tcp, func(k *knock) bool { return of[k.network] == most })
}

// first is the oldest of those knocks that says nothing, or else the oldest; the last of all has
// just come and could not say anything.
func first(knocks []*knock, which func(*knock) bool) (found *knock) {
	now := time.Now()
	for i, k := range knocks {
		switch {
		case !which(k):
		case i < len(knocks)-1 && !k.speaks(now):
			return k
		case found == nil:
			found = k
		}
	}
	return found
}

// entered forgets a connection whose handshake has ended, one way or the other.
func (d *door) entered(k *knock) {
	if k.timer != nil {
		k.timer.Stop()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	is := func(other *knock) bool { return other == k }
	d.tcp, d.quic = slices.DeleteFunc(d.tcp, is), slices.DeleteFunc(d.quic, is)
}

// newKnock tells where a connection comes from.
func (d *door) newKnock(from ma.Multiaddr) *knock {
	k := &knock{door: d}
	k.address, k.network = comesFrom(from)
	return k
}

// comesFrom is the address that a connection comes from and the network about it, as one customer
// of a provider has them, and one company; neither is valid where that cannot be told.
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

// Origin names the network that a peer is connected from; it is empty where that tells nothing, as
// behind a relay or in a network of one's own.
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

func (k *knock) sameAddress(other *knock) bool { return k.address == other.address }
func (k *knock) sameNetwork(other *knock) bool { return k.network == other.network }

func count(knocks []*knock, which func(*knock) bool) (n int) {
	for _, k := range knocks {
		if which(k) {
			n++
		}
	}
	return n
}

// doorUpgrader has what listens over TCP tell the door who knocks, and who has entered.
type doorUpgrader struct {
	transport.Upgrader
	door *door
}

// UpgradeGatedMaListener implements transport.Upgrader.
func (u doorUpgrader) UpgradeGatedMaListener(t transport.Transport, l transport.GatedMaListener) transport.Listener {
	return enteredListener{u.Upgrader.UpgradeGatedMaListener(t, doorListener{l, u.door})}
}

type doorListener struct {
	transport.GatedMaListener
	door *door
}

// Accept implements transport.GatedMaListener.
func (l doorListener) Accept() (manet.Conn, network.ConnManagementScope, error) {
	c, scope, err := l.GatedMaListener.Accept()
	if err != nil {
		return nil, nil, err
	}
	k := l.door.knocked(c, scope)
	return heardConn{c, k}, k, nil
}

type enteredListener struct{ transport.Listener }

// Accept implements transport.Listener.
func (l enteredListener) Accept() (transport.CapableConn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		if k, ok := c.Scope().(*knock); ok {
			k.door.entered(k)
		}
	}
	return c, err
}
