// Package wire holds the messages that ring peers exchange, and their bounds.
//
// The messages are Protocol Buffers (ring.proto); a transport frames one message by its length.
// Every message carries the major Version; a peer that reads another one answers a Refusal and
// nothing else. What a stranger sent passes Decode, which looks at the size and counts what is in
// it before it allocates, and looks at every bound below before anybody sees the message.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative ring.proto

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/counted"
	"github.com/apoidea/apoidea/dht/ring"
)

// Version is the major version of the ring's protocol. Fields are only ever added within one.
const Version = 1

// Bounds on what a peer may send.
const (
	// MaxMessageBytes bounds one encoded message. A stabilize message with 16 peers of four
	// addresses each takes 2 KiB.
	MaxMessageBytes = 64 << 10
	// MaxPeers bounds each list of peers: four times the default leaf set.
	MaxPeers = 64
	// MaxAddrs bounds the addresses of one peer.
	MaxAddrs = 16
	// MaxAddrBytes bounds one address.
	MaxAddrBytes = 256
	// MaxIDBytes bounds a peer ID; an Ed25519 one has 38 bytes, an RSA one 34.
	MaxIDBytes = 64
	// MaxTextBytes bounds the text of a refusal.
	MaxTextBytes = 256
	// MaxFenceMillis bounds the wait that a successor may impose on a newcomer.
	MaxFenceMillis = 120_000
)

// Errors by which a caller decides.
var (
	ErrTooLarge = errors.New("message over its bound")
	ErrVersion  = errors.New("another version of the protocol")
)

// Decode reads one message as sent by a stranger. The error is ErrTooLarge, ErrVersion, or says
// which rule was broken.
func Decode(data []byte) (*Message, error) {
	if len(data) > MaxMessageBytes {
		return nil, fmt.Errorf("decode: %d bytes: %w", len(data), ErrTooLarge)
	}
	m := new(Message)
	if err := counted.Unmarshal(data, m); errors.Is(err, counted.ErrTooMuch) {
		return nil, fmt.Errorf("decode: %w: %w", ErrTooLarge, err)
	} else if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return m, nil
}

// Encode writes a message; it fails only when the message is over MaxMessageBytes.
func Encode(m *Message) ([]byte, error) {
	data, err := proto.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	if len(data) > MaxMessageBytes {
		return nil, fmt.Errorf("encode: %d bytes: %w", len(data), ErrTooLarge)
	}
	return data, nil
}

// New wraps a body, one of the Message_ types, in a message of our Version.
func New(body isMessage_Body) *Message { return &Message{Version: Version, Body: body} }

// Validate says which bound or rule the message breaks, nil when none.
func (m *Message) Validate() error {
	if m.GetVersion() != Version {
		return fmt.Errorf("version %d: %w", m.GetVersion(), ErrVersion)
	}
	switch body := m.GetBody().(type) {
	case *Message_Refusal:
		if len(body.Refusal.GetText()) > MaxTextBytes {
			return fmt.Errorf("text: %w", ErrTooLarge)
		}
	case *Message_StabilizeRequest:
		return body.StabilizeRequest.GetSender().check()
	case *Message_StabilizeResponse:
		return body.StabilizeResponse.GetSender().check()
	case *Message_NextHopRequest:
		return checkKey("key", body.NextHopRequest.GetKey())
	case *Message_NextHopResponse:
		return body.NextHopResponse.check()
	case *Message_PingRequest:
		if len(body.PingRequest.GetTarget()) > MaxIDBytes {
			return fmt.Errorf("target: %w", ErrTooLarge)
		}
	case *Message_EntryRequest:
		return body.EntryRequest.GetSender().check()
	case *Message_EntryResponse:
		return errors.Join(body.EntryResponse.GetSelf().check(), checkPeers("peers", body.EntryResponse.GetPeers()))
	case *Message_LeaveRequest:
		return body.LeaveRequest.GetSender().check()
	case *Message_AttachRequest:
		return body.AttachRequest.GetSender().check()
	case *Message_AttachResponse:
		return checkPeers("peers", body.AttachResponse.GetPeers())
	case *Message_PingResponse, *Message_LeaveResponse:
	default:
		return errors.New("message without a body")
	}
	return nil
}

func (n *Neighbours) check() error {
	if n == nil {
		return errors.New("sender missing")
	}
	if err := n.GetSelf().check(); err != nil {
		return fmt.Errorf("self: %w", err)
	}
	if start := n.GetServedStart(); len(start) > 0 {
		if err := checkKey("served start", start); err != nil {
			return err
		}
	}
	if n.GetFenceMs() > MaxFenceMillis {
		return fmt.Errorf("fence of %d ms: %w", n.GetFenceMs(), ErrTooLarge)
	}
	return errors.Join(checkPeers("predecessors", n.GetPredecessors()), checkPeers("successors", n.GetSuccessors()))
}

func (r *NextHopResponse) check() error {
	if r.GetHint() != nil {
		if err := r.GetHint().Validate(); err != nil {
			return err
		}
	}
	return checkPeers("closer", r.GetCloser())
}

// Validate says which bound or rule the hint breaks. Hints travel in the answers of other protocols
// too, so it is exported.
func (h *Hint) Validate() error {
	if err := h.GetOwner().check(); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	if err := errors.Join(checkKey("start", h.GetStart()), checkKey("end", h.GetEnd())); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	if ring.PeerKey(h.GetOwner().GetId()) != ring.Key(h.GetEnd()) {
		return errors.New("hint: the arc does not end at its owner")
	}
	return nil
}

// Validate says which bound or rule the stored memory breaks.
func (m *Memory) Validate() error {
	if start := m.GetPredecessor(); len(start) > 0 {
		if err := checkKey("predecessor", start); err != nil {
			return err
		}
	}
	return checkPeers("peers", m.GetPeers())
}

// Arc is the arc of a hint that passed Validate.
func (h *Hint) Arc() ring.Arc {
	return ring.Arc{Start: ring.Key(h.GetStart()), End: ring.Key(h.GetEnd())}
}

func (p *Peer) check() error {
	switch {
	case p == nil || len(p.GetId()) == 0:
		return errors.New("peer without an ID")
	case len(p.GetId()) > MaxIDBytes:
		return fmt.Errorf("peer ID: %w", ErrTooLarge)
	case len(p.GetAddrs()) > MaxAddrs:
		return fmt.Errorf("%d addresses: %w", len(p.GetAddrs()), ErrTooLarge)
	}
	for _, addr := range p.GetAddrs() {
		if len(addr) > MaxAddrBytes {
			return fmt.Errorf("address: %w", ErrTooLarge)
		}
	}
	return nil
}

func checkPeers(name string, peers []*Peer) error {
	if len(peers) > MaxPeers {
		return fmt.Errorf("%s: %d peers: %w", name, len(peers), ErrTooLarge)
	}
	for _, p := range peers {
		if err := p.check(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func checkKey(name string, b []byte) error {
	if len(b) != ring.KeySize {
		return fmt.Errorf("%s of %d bytes, want %d", name, len(b), ring.KeySize)
	}
	return nil
}
