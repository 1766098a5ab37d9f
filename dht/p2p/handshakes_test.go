package p2p

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peerstore"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"
	"github.com/quic-go/quic-go"
)

// TestSilentSocketsKeepNobodyOut: somebody opens many connections and says nothing, from the
// address that honest peers have too. It has to end sooner than libp2p's own timeouts, which
// depends on the machine, so it runs with --full only.
func TestSilentSocketsKeepNobodyOut(t *testing.T) {
	if os.Getenv("APOIDEA_FULL") == "" || testing.Short() {
		t.Skip("bound by machine time: runs with scripts/check.sh --full, without the race detector")
	}
	server := newNetOf(t, Config{Network: "test"}, func(n *Net) { n.Handle("echo", echo) })
	t.Run("tcp", func(t *testing.T) {
		honest := outside(t, server, 24, ma.P_TCP)
		silentTCP(t, server, 300)
		joinAll(t, server, honest)
	})
	t.Run("quic", func(t *testing.T) { // without a word after the first
		honest := outside(t, server, 24, ma.P_UDP)
		halfQUIC(t, server, 300, false)
		joinAll(t, server, honest)
	})
	t.Run("quic, by who shows its address", func(t *testing.T) {
		honest := outside(t, server, 24, ma.P_TCP)
		halfQUIC(t, server, 300, true)
		joinAll(t, server, honest)
	})
}

// TestWhoEnteredIsNotCounted: a connection whose handshake has ended is no handshake any more, and
// a stream that named its protocol is not nameless.
func TestWhoEnteredIsNotCounted(t *testing.T) {
	overBoth(t, func(n *Net) { n.Handle("echo", echo) }, func(t *testing.T, client, server *Net) {
		if _, err := client.Call(t.Context(), server.self, "echo", []byte("here")); err != nil {
			t.Fatal(err)
		}
		d, ok := server.host.Network().ResourceManager().(*handshakeLimiter)
		if !ok {
			t.Fatalf("the resource manager is a %T", server.host.Network().ResourceManager())
		}
		counted := func() int {
			d.mu.Lock()
			defer d.mu.Unlock()
			return len(d.tcp) + len(d.quic) + len(d.nameless)
		}
		for until := time.Now().Add(5 * time.Second); counted() > 0; time.Sleep(time.Millisecond) { // identify names its own streams
			if time.Now().After(until) {
				t.Fatalf("%d are counted still", counted())
			}
		}
		if !server.Connected(client.self) {
			t.Error("the connection is gone")
		}
	})
}

// TestNamelessStreamsKeepNobodyOut: peers open as many streams as they may that name no protocol,
// and others are served.
func TestNamelessStreamsKeepNobodyOut(t *testing.T) {
	server := newNetOf(t, Config{Network: "test"}, func(n *Net) { n.Handle("echo", echo) })
	honest := outside(t, server, 24, ma.P_TCP)
	for range 12 {
		stranger := newNet(t, "test", "", nil)
		introduce(stranger, server)
		if err := stranger.Connect(t.Context(), server.self); err != nil {
			t.Fatal(err)
		}
		for range 96 {
			s, err := stranger.host.Network().ConnsToPeer(server.self)[0].NewStream(t.Context())
			if err != nil {
				break
			}
			_, _ = s.Write([]byte{19}) // the first byte of the name of multistream
		}
	}
	joinAll(t, server, honest)
}

// outside are n peers that know the server's address of a protocol and have not dialled it.
func outside(t *testing.T, server *Net, n, protocol int) []*Net {
	t.Helper()
	peers := make([]*Net, n)
	for i := range peers {
		peers[i] = newNet(t, "test", "", nil)
		peers[i].host.Peerstore().AddAddr(server.self, addrOf(t, server, protocol), peerstore.PermanentAddrTTL)
	}
	return peers
}

// joinAll has peers dial the server at once, and call it, within five seconds, sooner than libp2p
// ends what keeps them waiting.
func joinAll(t *testing.T, server *Net, peers []*Net) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	begin := time.Now()
	var callers sync.WaitGroup
	for _, client := range peers {
		callers.Go(func() {
			for { // as whoever joins does
				_, err := client.Call(ctx, server.self, "echo", []byte("here"))
				if err == nil {
					return
				}
				if ctx.Err() != nil {
					t.Errorf("an honest peer is kept out: %v", err)
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	callers.Wait()
	t.Logf("%d peers called after %v", len(peers), time.Since(begin))
}

// silentTCP opens TCP connections that send nothing, and keeps them until the test ends.
func silentTCP(t *testing.T, server *Net, n int) {
	t.Helper()
	to := netAddr(t, server, ma.P_TCP)
	for range n {
		c, err := net.Dial("tcp", to.String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
}

// halfQUIC begins handshakes over QUIC and hears no answers, but for those that ask it to show its
// address, if it retries.
func halfQUIC(t *testing.T, server *Net, n int, retries bool) {
	t.Helper()
	to := netAddr(t, server, ma.P_UDP)
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	from := &quic.Transport{Conn: halfDeaf{socket, retries}}
	ctx, cancel := context.WithCancel(t.Context())
	var dials sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		dials.Wait()
		_ = from.Close()
		_ = socket.Close()
	})
	for range n {
		dials.Go(func() {
			_, _ = from.Dial(ctx, to, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"libp2p"}}, &quic.Config{HandshakeIdleTimeout: time.Minute})
		})
	}
	time.Sleep(time.Second) // until they have begun
}

// halfDeaf hears nothing but, perhaps, packets that ask for a retry.
type halfDeaf struct {
	net.PacketConn
	retries bool
}

func (d halfDeaf) ReadFrom(p []byte) (int, net.Addr, error) {
	for {
		n, from, err := d.PacketConn.ReadFrom(p)
		if err != nil || d.retries && n > 0 && p[0]&0xf0 == 0xf0 { // RFC 9000, 17.2.5
			return n, from, err
		}
	}
}

// addrOf is where a Net listens over a protocol.
func addrOf(t *testing.T, n *Net, protocol int) ma.Multiaddr {
	t.Helper()
	for _, a := range n.host.Addrs() {
		if _, err := a.ValueForProtocol(protocol); err == nil {
			return a
		}
	}
	t.Fatalf("listens at %v", n.host.Addrs())
	return nil
}

func netAddr(t *testing.T, n *Net, protocol int) net.Addr {
	t.Helper()
	socket, _ := ma.SplitFunc(addrOf(t, n, protocol), func(c ma.Component) bool { return c.Protocol().Code == ma.P_QUIC_V1 })
	to, err := manet.ToNetAddr(socket)
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestDoorClosesWhoCrowds: one connection too many, and one goes that is of the same address, or of
// the network that has the most.
func TestDoorClosesWhoCrowds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &handshakeLimiter{perAddress: addressHandshakes}
		handshake := func(from string) *visitor { return knockFrom(t, d, from) }
		good := handshake("/ip4/192.0.2.1/tcp/1")
		var crowd []*visitor
		for i := range addressHandshakes + 1 {
			crowd = append(crowd, handshake(fmt.Sprintf("/ip4/198.51.100.1/tcp/%d", i+1)))
		}
		wantOpen(t, "the oldest of a crowded address", false, crowd[:1])
		wantOpen(t, "others", true, append(crowd[1:], good))
		crowd = nil
		for i := range maxHandshakes {
			crowd = append(crowd, handshake(fmt.Sprintf("/ip4/203.0.113.%d/tcp/1", i+1)))
		}
		wantOpen(t, "the oldest of a crowded network", false, crowd[:1])
		wantOpen(t, "the newest of it", true, crowd[len(crowd)-1:])
		wantOpen(t, "another network's", true, []*visitor{good})
		home := handshake("/ip6/2001:db8:1::1/tcp/1")
		home.handshake.Done()
		time.Sleep(handshakeTime + 1)
		wantOpen(t, "one after its time", false, []*visitor{good})
		wantOpen(t, "one that has entered", true, []*visitor{home})
	})
}

// TestDoorKeepsWhoSpeaks: of a crowd those go first that say nothing, and those that began to speak
// long ago.
func TestDoorKeepsWhoSpeaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &handshakeLimiter{perAddress: maxHandshakes}
		handshake := func() *visitor { return knockFrom(t, d, "/ip4/192.0.2.1/tcp/1") }
		speaks, silent := handshake(), handshake()
		if n, err := (timedConn{speaks, speaks.handshake}).Read(make([]byte, 1)); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		var crowd []*visitor
		for range maxHandshakes - 1 {
			crowd = append(crowd, handshake())
		}
		wantOpen(t, "the oldest, which speaks", true, []*visitor{speaks})
		wantOpen(t, "the oldest that is silent", false, []*visitor{silent})
		time.Sleep(wordTime + 1)
		handshake()
		wantOpen(t, "the oldest, which spoke long ago", false, []*visitor{speaks})
		wantOpen(t, "the others", true, crowd)
	})
}

// visitor is a connection that says whether it was closed.
type visitor struct {
	manet.Conn
	from      ma.Multiaddr
	handshake *handshake
	closed    atomic.Bool
}

func knockFrom(t *testing.T, d *handshakeLimiter, from string) *visitor {
	t.Helper()
	addr, err := ma.NewMultiaddr(from)
	if err != nil {
		t.Fatal(err)
	}
	c := &visitor{from: addr}
	c.handshake = d.admit(c, &network.NullScope{})
	synctest.Wait()
	return c
}

func (c *visitor) RemoteMultiaddr() ma.Multiaddr { return c.from }

func (c *visitor) Read(b []byte) (int, error) { return min(1, len(b)), nil }

func (c *visitor) Close() error {
	c.closed.Store(true)
	return nil
}

func wantOpen(t *testing.T, what string, want bool, conns []*visitor) {
	t.Helper()
	for _, c := range conns {
		if c.closed.Load() == want {
			t.Errorf("%s, from %v: open %v, want %v", what, c.from, !want, want)
		}
	}
}

// TestDoorRefusesCrowdsOfQUIC: a network has half of all handshakes over QUIC at most, and who
// comes late proves its address.
func TestDoorRefusesCrowdsOfQUIC(t *testing.T) {
	d := &handshakeLimiter{ResourceManager: &network.NullResourceManager{}}
	open := func(from string) network.ConnManagementScope {
		addr, err := ma.NewMultiaddr(from)
		if err != nil {
			t.Fatal(err)
		}
		scope, err := d.OpenConnection(network.DirInbound, false, addr)
		if err != nil {
			return nil
		}
		return scope
	}
	var crowd []network.ConnManagementScope
	for i := range maxQUICHandshakes/2 + 8 {
		if scope := open(fmt.Sprintf("/ip4/203.0.113.%d/udp/1/quic-v1", i+1)); scope != nil {
			crowd = append(crowd, scope)
		}
	}
	if len(crowd) != maxQUICHandshakes/2 || !d.VerifySourceAddress(nil) {
		t.Errorf("%d let in, want %d; addresses are to be proven: %v", len(crowd), maxQUICHandshakes/2, d.VerifySourceAddress(nil))
	}
	if open("/ip4/192.0.2.1/udp/1/quic-v1") == nil {
		t.Error("another network is kept out")
	}
	for _, scope := range crowd {
		if err := scope.SetPeer("somebody"); err != nil {
			t.Fatal(err)
		}
	}
	if open("/ip4/203.0.113.1/udp/1/quic-v1") == nil || d.VerifySourceAddress(nil) {
		t.Error("who has entered is still counted")
	}
}

// TestOrigin: peers are told apart by their networks, but for those that are behind a relay or in a
// network of one's own.
func TestOrigin(t *testing.T) {
	for addr, want := range map[string]string{
		"/ip4/8.8.8.8/tcp/4001":                  "8.8.8.0/24",
		"/ip4/8.8.8.9/udp/4001/quic-v1":          "8.8.8.0/24",
		"/ip6/2a00:1450:4001:829::200e/tcp/4001": "2a00:1450:4001::/48",
		"/ip4/192.168.1.7/tcp/4001":              "",
		"/ip4/127.0.0.1/tcp/4001":                "",
		"/ip4/8.8.8.8/tcp/4001/p2p/12D3KooWJWoaqZhDaoEFshF7Rh1bpY9ohihFhzcW6d69Lr2NASuq/p2p-circuit": "",
	} {
		if got := originOf(ma.StringCast(addr)); got != want {
			t.Errorf("%s: %q, want %q", addr, got, want)
		}
	}
}
