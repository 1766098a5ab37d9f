package p2p

import (
	"context"
	"errors"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/wire"
)

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
