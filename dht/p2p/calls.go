package p2p

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	multistream "github.com/multiformats/go-multistream"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/wire"
)

// Handle registers the handler of a service, or removes it with a nil h. Register handlers before
// Listen: each later change is sent to all connected peers.
func (n *Net) Handle(name string, h calls.Handler) {
	served := n.calls.Handle(name, h)
	id := n.Protocol(name)
	switch {
	case h == nil:
		n.host.RemoveStreamHandler(id)
	case !served:
		major := strings.SplitAfterN(wireVersion, ".", 2)[0]
		prefix := strings.TrimSuffix(string(id), wireVersion) + major
		n.host.SetStreamHandlerMatch(id,
			func(id protocol.ID) bool { return strings.HasPrefix(string(id), prefix) },
			func(s network.Stream) { n.calls.Serve(name, s.Conn().RemotePeer(), n.streams.shaped(name, s)) })
	}
}

// Call sends a request to a peer and returns its answer, see [calls.Endpoint.Call].
func (n *Net) Call(ctx context.Context, to peer.ID, name string, req []byte) ([]byte, error) {
	begin := time.Now()
	answer, err := n.calls.Call(ctx, to, name, req)
	if err == nil && to != n.self {
		n.trips.record(to, time.Since(begin), time.Now())
	}
	if errors.Is(err, calls.ErrUnreachable) {
		err = calls.Unreachable(to, causedBy{err})
	}
	return answer, err
}

// Stats returns the current counters of all calls.
func (n *Net) Stats() calls.Stats { return n.calls.Stats() }

// dialTimeout is the timeout to connect to a peer and open a stream.
const dialTimeout = 10 * time.Second

// errNoConnection ends a call that must not dial.
var errNoConnection = errors.New("not connected, and dialing is disabled")

// streams implements calls.Network.
type streams struct {
	*ground
	services *services
	dialer   *dialer
	conns    *conns
}

var _ calls.Network = (*streams)(nil)

// Open implements calls.Network. It connects first if necessary and mayDial.
func (o *streams) Open(ctx context.Context, to peer.ID, service string, mayDial bool) (calls.Stream, error) {
	if !mayDial && !o.Connected(to) {
		return nil, calls.Unreachable(to, errNoConnection)
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	if err := o.dialer.connect(ctx, to); err != nil {
		return nil, err
	}
	s, err := o.open(network.WithNoDial(ctx, "connected before"), to, o.services.Protocol(service))
	if err == nil {
		return o.shaped(service, s), nil
	}
	if refusal := o.Refusal(to, service, err); refusal != nil {
		return nil, refusal
	}
	return nil, calls.Unreachable(to, err)
}

// Refusal implements calls.Network. Protocols are negotiated lazily, so the peer may reject a
// stream after it was opened.
func (o *streams) Refusal(to peer.ID, service string, cause error) *calls.Error {
	if !isNotSupported(cause) {
		return nil
	}
	return o.services.speaks(to, service)
}

// Known implements calls.Network: ring neighbors are trusted.
func (o *streams) Known(id peer.ID) bool { return o.conns.neighbour(id) }

func isNotSupported(err error) bool {
	_, ok := errors.AsType[multistream.ErrNotSupported[protocol.ID]](err)
	return ok
}

// open opens a stream over a direct connection. If there is only a relayed one, it waits for hole
// punching and then uses the relay: slow and short-lived, but better than nothing.
func (o *streams) open(ctx context.Context, to peer.ID, id protocol.ID) (network.Stream, error) {
	if o.host.Network().Connectedness(to) != network.Limited {
		return o.host.NewStream(ctx, to, id)
	}
	punch, cancel := context.WithTimeout(ctx, punchTime)
	defer cancel()
	if s, err := o.host.NewStream(punch, to, id); err == nil || isNotSupported(err) {
		return s, err
	}
	return o.host.NewStream(network.WithAllowLimitedConn(ctx, "no direct way"), to, id)
}

// shaped returns a stream whose writes are paced if the service is bulk.
func (o *streams) shaped(service string, s network.Stream) network.Stream {
	if o.cfg.Shape != nil && slices.Contains(o.cfg.Bulk, service) {
		return paced{s, o.life, o.cfg.Shape}
	}
	return s
}

// ringService is the service name of the ring.
const ringService = "ring"

// RingTransport carries the ring's messages as calls of the service "ring". It learns addresses of
// peers only from answers: callers could fill the memory with those in requests.
type RingTransport struct {
	net *Net
}

var _ dht.Transport = (*RingTransport)(nil)

// NewRingTransport returns the transport of a Net.
func NewRingTransport(n *Net) *RingTransport { return &RingTransport{net: n} }

// Serve passes incoming requests to h, usually (*dht.DHT).Handle. Call it before Listen.
func (t *RingTransport) Serve(h dht.Handler) {
	t.net.Handle(ringService, func(ctx context.Context, from peer.ID, data []byte) ([]byte, error) {
		req, err := wire.Decode(data)
		if err != nil {
			return wire.Encode(refusal(err))
		}
		answer, err := h(ctx, from, req)
		if err != nil {
			return nil, err
		}
		return wire.Encode(answer)
	})
}

// refusal answers a message that Decode rejected.
func refusal(err error) *wire.Message {
	reason := wire.Reason_REASON_INVALID
	if errors.Is(err, wire.ErrVersion) {
		reason = wire.Reason_REASON_VERSION
	}
	text := err.Error()
	return &wire.Message{Version: wire.Version, Body: &wire.Message_Refusal{
		Refusal: &wire.Refusal{Reason: reason, Text: text[:min(len(text), wire.MaxTextBytes)]},
	}}
}

// Call sends one request and dials the addresses in to if necessary.
func (t *RingTransport) Call(ctx context.Context, to dht.Peer, req *wire.Message) (*wire.Message, error) {
	data, err := wire.Encode(req)
	if err != nil {
		return nil, err
	}
	t.meet(to.ID, to.Addrs)
	data, err = t.net.Call(ctx, to.ID, ringService, data)
	if err != nil {
		return nil, err
	}
	answer, err := wire.Decode(data)
	if err != nil {
		return nil, err
	}
	t.learn(answer)
	return answer, nil
}

// meet records addresses of an unconnected peer; a connection has better ones.
func (t *RingTransport) meet(id peer.ID, addrs [][]byte) {
	if len(addrs) > 0 && id != t.net.self && !t.net.Connected(id) {
		t.net.Met(id, addrs)
	}
}

// learn records the addresses of the peers in an answer.
func (t *RingTransport) learn(m *wire.Message) {
	switch body := m.GetBody().(type) {
	case *wire.Message_StabilizeResponse:
		t.learnFrom(body.StabilizeResponse.GetSender())
	case *wire.Message_NextHopResponse:
		t.learnPeers(body.NextHopResponse.GetHint().GetOwner())
		t.learnPeers(body.NextHopResponse.GetCloser()...)
	case *wire.Message_AttachResponse:
		t.learnPeers(body.AttachResponse.GetPeers()...)
	case *wire.Message_EntryResponse:
		t.learnPeers(body.EntryResponse.GetSelf())
		t.learnPeers(body.EntryResponse.GetPeers()...)
	}
}

func (t *RingTransport) learnFrom(n *wire.Neighbours) {
	t.learnPeers(n.GetSelf())
	t.learnPeers(n.GetPredecessors()...)
	t.learnPeers(n.GetSuccessors()...)
}

func (t *RingTransport) learnPeers(peers ...*wire.Peer) {
	for _, p := range peers {
		if p != nil {
			t.meet(peer.ID(p.GetId()), p.GetAddrs())
		}
	}
}

// tripAge is the lifetime of a minimum round-trip time, maxTrips the number of peers.
const (
	tripAge  = 5 * time.Minute
	maxTrips = 4096
)

// trips holds minimum round-trip times of peers.
type trips struct {
	mu    sync.Mutex // guards least
	least map[peer.ID]trip
}

type trip struct {
	took time.Duration
	at   time.Time
}

// record records an answered call.
func (t *trips) record(p peer.ID, took time.Duration, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old, known := t.least[p]
	if known && old.took < took && now.Sub(old.at) < tripAge {
		return
	}
	if t.least == nil || !known && len(t.least) >= maxTrips {
		t.least = make(map[peer.ID]trip) // later calls refill it
	}
	t.least[p] = trip{took, now}
}

func (t *trips) of(p peer.ID) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.least[p].took
}
