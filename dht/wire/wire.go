// Package wire defines the messages of the ring protocol and their limits.
//
// The messages are Protocol Buffers (ring.proto); a transport frames each with its length. Every
// message carries the major Version; a peer answers any other version with a Refusal. Decode checks
// the size of untrusted input and counts its elements before it allocates, and checks every limit
// below before it returns the message.
package wire

//go:generate protoc --go_out=. --go_opt=paths=source_relative ring.proto

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/sizelimit"
)

// Version is the major version of the ring protocol. Within one version fields are only added.
const Version = 1

// Limits of messages.
const (
	// MaxMessageBytes is the maximum size of an encoded message. A stabilize message with 16 peers of
	// four addresses each takes 2 KiB.
	MaxMessageBytes = 64 << 10
	// MaxPeers is the maximum length of each list of peers: four times the default leaf set.
	MaxPeers = 64
	// MaxAddrs is the maximum number of addresses of one peer.
	MaxAddrs = 16
	// MaxAddrBytes is the maximum size of one address.
	MaxAddrBytes = 256
	// MaxIDBytes is the maximum size of a peer ID; an Ed25519 one has 38 bytes, an RSA one 34.
	MaxIDBytes = 64
	// MaxTextBytes is the maximum size of the text of a refusal.
	MaxTextBytes = 256
	// MaxChain is the maximum number of certificates from the founder to a member.
	MaxChain = 3
	// MaxRevocations is the maximum number of revocations that a peer keeps or sends. One takes up to
	// 500 bytes.
	MaxRevocations = 1024
	// MaxSignatureBytes is the size of an Ed25519 signature.
	MaxSignatureBytes = 64
	// MaxFenceMillis is the maximum delay that a successor may impose on a joining peer.
	MaxFenceMillis = 120_000
)

// Errors that callers may test for.
var (
	ErrTooLarge = errors.New("message too large")
	ErrVersion  = errors.New("incompatible protocol version")
)

// Decode decodes one untrusted message. The error is ErrTooLarge, ErrVersion, or names the violated
// rule.
func Decode(data []byte) (*Message, error) {
	if len(data) > MaxMessageBytes {
		return nil, fmt.Errorf("decode: %d bytes: %w", len(data), ErrTooLarge)
	}
	m := new(Message)
	if err := sizelimit.Unmarshal(data, m); errors.Is(err, sizelimit.ErrTooMuch) {
		return nil, fmt.Errorf("decode: %w: %w", ErrTooLarge, err)
	} else if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return m, nil
}

// Encode encodes a message; it fails only if the message exceeds MaxMessageBytes.
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

// Validate returns an error that names a violated limit or rule.
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
	case *Message_EntryResponse:
		return errors.Join(body.EntryResponse.GetSelf().check(), checkPeers("peers", body.EntryResponse.GetPeers()), body.EntryResponse.GetAdmission().Validate())
	case *Message_AttachRequest:
		return body.AttachRequest.GetSender().check()
	case *Message_AttachResponse:
		return errors.Join(checkPeers("peers", body.AttachResponse.GetPeers()), body.AttachResponse.GetAdmission().Validate())
	case *Message_PingResponse, *Message_EntryRequest:
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
	return errors.Join(checkPeers("predecessors", n.GetPredecessors()), checkPeers("successors", n.GetSuccessors()), n.GetAdmission().Validate())
}

func (r *NextHopResponse) check() error {
	if r.GetHint() != nil {
		if err := r.GetHint().Validate(); err != nil {
			return err
		}
	}
	return errors.Join(checkPeers("closer", r.GetCloser()), r.GetAdmission().Validate())
}

// Validate returns an error that names a violated limit or rule.
func (a *Admission) Validate() error {
	if len(a.GetFounder()) > MaxIDBytes {
		return fmt.Errorf("founder: %w", ErrTooLarge)
	}
	return checkChain(a.GetChain(), MaxChain)
}

// Validate returns an error that names a violated limit or rule.
func (m *Invitation) Validate() error { return m.GetAdmission().Validate() }

// Validate returns an error that names a violated limit or rule.
func (m *Renewal) Validate() error { return m.GetAdmission().Validate() }

// Validate returns an error that names a violated limit or rule.
func (m *Revocations) Validate() error {
	if len(m.GetRevocations()) > MaxRevocations {
		return fmt.Errorf("%d revocations: %w", len(m.GetRevocations()), ErrTooLarge)
	}
	for _, r := range m.GetRevocations() {
		if err := r.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Validate returns an error that names a violated limit or rule.
func (r *Revocation) Validate() error {
	if len(r.GetBy()) > MaxIDBytes {
		return fmt.Errorf("revocation by: %w", ErrTooLarge)
	}
	own := &Certificate{Subject: r.GetSubject(), Issued: r.GetAt(), Expires: r.GetUntil(), Signature: r.GetSignature()}
	return errors.Join(checkChain([]*Certificate{own}, 1), checkChain(r.GetChain(), MaxChain-1))
}

func checkChain(chain []*Certificate, limit int) error {
	if len(chain) > limit {
		return fmt.Errorf("chain of %d certificates: %w", len(chain), ErrTooLarge)
	}
	for _, c := range chain {
		switch {
		case len(c.GetSubject()) == 0 || len(c.GetSubject()) > MaxIDBytes:
			return fmt.Errorf("subject of %d bytes, expected 1 to %d", len(c.GetSubject()), MaxIDBytes)
		case len(c.GetSignature()) != MaxSignatureBytes:
			return fmt.Errorf("signature of %d bytes, expected %d", len(c.GetSignature()), MaxSignatureBytes)
		case c.GetIssued() < 0 || c.GetIssued() >= c.GetExpires():
			return fmt.Errorf("certificate issued at %d expires at %d", c.GetIssued(), c.GetExpires())
		}
	}
	return nil
}

// Validate returns an error that names a violated limit or rule. Hints travel in the answers of
// other protocols too, so it is exported.
func (h *Hint) Validate() error {
	if err := h.GetOwner().check(); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	if err := errors.Join(checkKey("start", h.GetStart()), checkKey("end", h.GetEnd())); err != nil {
		return fmt.Errorf("hint: %w", err)
	}
	if ring.PeerKey(h.GetOwner().GetId()) != ring.Key(h.GetEnd()) {
		return errors.New("hint: arc does not end at the owner")
	}
	return nil
}

// Validate returns an error that names a violated limit or rule.
func (m *Memory) Validate() error {
	if start := m.GetPredecessor(); len(start) > 0 {
		if err := checkKey("predecessor", start); err != nil {
			return err
		}
	}
	return checkPeers("peers", m.GetPeers())
}

// Arc returns the arc of a hint that passed Validate.
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
		return fmt.Errorf("%s of %d bytes, expected %d", name, len(b), ring.KeySize)
	}
	return nil
}
