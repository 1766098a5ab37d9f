package p2p

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/wire"
)

// TestBookKeepsTheLast: however many peers are made up, whoever is told of next can be dialled, and
// peers with a connection stay known.
func TestBookKeepsTheLast(t *testing.T) {
	connected, self := peer.ID("connected"), peer.ID("self")
	b, err := newBoundedPeerstore(self, func(p peer.ID) bool { return p == connected })
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	addr := ma.StringCast("/ip4/192.0.2.1/tcp/4001")
	b.AddAddr(self, addr, peerstore.PermanentAddrTTL)
	b.AddAddr(connected, addr, peerstore.ConnectedAddrTTL)
	for i := range 3 * maxKnownPeers {
		id := peer.ID(fmt.Sprint("peer", i))
		b.AddAddr(id, addr, metAddrTTL)
		if len(b.Addrs(id)) != 1 {
			t.Fatalf("peer %d: no address", i)
		}
	}
	if n := len(b.PeersWithAddrs()); n != maxKnownPeers+2 {
		t.Errorf("%d peers are known", n)
	}
	for _, id := range []peer.ID{self, connected} {
		if len(b.Addrs(id)) != 1 {
			t.Errorf("%s was forgotten", id)
		}
	}
}

// TestBookIsBrief: addresses of many parts, many of them, and long or many names of protocols are
// left out, and what else a peer says of itself is cut.
func TestBookIsBrief(t *testing.T) {
	b, err := newBoundedPeerstore("self", func(peer.ID) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	relayed := ma.StringCast("/ip4/192.0.2.1/tcp/4001/p2p/12D3KooWBhMbLvQRgwQhVpmZkXyFJbCLkfpV7JqYvn6gWcVvj7rK/p2p-circuit")
	b.AddAddrs("a", []ma.Multiaddr{ma.StringCast("/ip4/192.0.2.1/udp/1" + strings.Repeat("/quic-v1", 100)), relayed}, metAddrTTL)
	if got := b.Addrs("a"); len(got) != 1 || !got[0].Equal(relayed) {
		t.Errorf("addresses %v", got)
	}
	for i := range 10 * maxMetAddrs {
		b.AddAddr("a", ma.StringCast(fmt.Sprintf("/ip4/192.0.2.1/tcp/%d", i+1)), metAddrTTL)
	}
	if n := len(b.Addrs("a")); n != maxMetAddrs {
		t.Errorf("%d addresses", n)
	}
	names := []protocol.ID{"/" + protocol.ID(strings.Repeat("x", maxProtocolNames)), "/short"}
	if err := b.SetProtocols("a", names...); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.GetProtocols("a"); len(got) != 1 {
		t.Errorf("protocols %v", got)
	}
	for i := range 10 * maxProtocols {
		names = append(names, protocol.ID(fmt.Sprint("/", i)))
	}
	if err := b.AddProtocols("b", names...); err != nil {
		t.Fatal(err)
	}
	if got, _ := b.GetProtocols("b"); len(got) >= maxProtocols {
		t.Errorf("%d protocols", len(got))
	}
	if err := b.Put("a", "AgentVersion", strings.Repeat("x", 8<<10)); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get("a", "AgentVersion"); err != nil || len(got.(string)) > maxMetadata {
		t.Errorf("of its version %d bytes, %v", len(got.(string)), err)
	}
}

// TestRequestsTeachNoAddresses: whoever asks cannot fill the memory with addresses of others.
func TestRequestsTeachNoAddresses(t *testing.T) {
	n := quiet(t, Config{})
	NewRingTransport(n).Serve(func(context.Context, peer.ID, *wire.Message) (*wire.Message, error) {
		return wire.New(&wire.Message_PingResponse{PingResponse: &wire.PingResponse{}}), nil
	})
	if err := n.Listen(); err != nil {
		t.Fatal(err)
	}
	from := newNet(t, "test", "/ip4/127.0.0.1/tcp/0", nil)
	introduce(from, n)
	made := make([]*wire.Peer, wire.MaxPeers)
	for i := range made {
		made[i] = dht.NewPeer(peer.ID(fmt.Sprint("made", i)), [][]byte{ma.StringCast("/ip4/192.0.2.1/tcp/4001").Bytes()}).Wire()
	}
	self := from.Peer(from.Self()).Wire()
	for _, m := range []*wire.Message{
		wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: &wire.Neighbours{Self: self, State: wire.State_STATE_JOINING, Successors: made}}}),
		wire.New(&wire.Message_StabilizeRequest{StabilizeRequest: &wire.StabilizeRequest{Sender: &wire.Neighbours{Self: self, State: wire.State_STATE_LEAVING, Successors: made}}}),
	} {
		if _, err := NewRingTransport(from).Call(t.Context(), n.Peer(n.Self()), m); err != nil {
			t.Fatal(err)
		}
	}
	if got := n.AddrsOf(peer.ID("made0")); len(got) > 0 {
		t.Errorf("addresses %v", got)
	}
}
