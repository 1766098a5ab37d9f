package rpc

import (
	"context"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
)

// Who says whose requests a method takes. No method can be served without.
type Who struct {
	// Caller is what the caller must be, and Asked what is asked of the request itself, both in
	// words for SECURITY.md.
	Caller, Asked       string
	neighbours, members bool
}

// Anyone has a method take requests of any identity; the handler checks what asked says.
func Anyone(asked string) Who { return Who{Caller: "anyone", Asked: asked} }

// Neighbours has a method take requests of the leaf set, and of who was in it until lately. To
// others it is busy: their view of the ring may be ahead of ours.
func Neighbours(asked string) Who { return Who{Caller: "neighbour", Asked: asked, neighbours: true} }

// Members has a method take requests of peers that serve a part of the ring: those who stand near
// and those whom a lookup finds at their own place. To others it is busy, as their place may not be
// known yet.
func Members(asked string) Who { return Who{Caller: "member", Asked: asked, members: true} }

// caller is who made a request, as its handler may ask.
type caller struct {
	gate Gate
	id   peer.ID
}

type callerKey struct{}

// OfMember says whether the request that is handled under ctx is a member's; one that this peer
// makes of itself is. It may ask the ring.
func OfMember(ctx context.Context) bool {
	c, ok := ctx.Value(callerKey{}).(caller)
	return !ok || c.gate.Member(ctx, c.id)
}

// OfWorker says whether the request that is handled under ctx is a member's, or of a peer that
// works on one of these hosts, or did, as the host's owner says. It may ask the ring.
func OfWorker(ctx context.Context, hosts func() []string) bool {
	c, ok := ctx.Value(callerKey{}).(caller)
	return !ok || c.gate.Works(ctx, c.id, hosts)
}

// OfOwner says of each key whether the request that is handled under ctx is its owner's, as seen
// from here; of one that this peer makes of itself each is. It may ask the ring.
func OfOwner(ctx context.Context, keys ...ring.Key) []bool {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		return c.gate.Owns(ctx, c.id, keys)
	}
	own := make([]bool, len(keys))
	for i := range own {
		own[i] = true
	}
	return own
}

// unpacks waits until there is memory for the request that is handled under ctx, or ctx ends.
func unpacks(ctx context.Context, bytes int64) (done func(), err error) {
	c, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return func() {}, nil
	}
	return c.gate.Unpacks(ctx, c.id, bytes)
}

// Gate is what a peer knows of those who call it. All methods may be called at any time.
type Gate interface {
	// Neighbour says whether a peer is in the leaf set as seen here, or was until lately.
	Neighbour(id peer.ID) bool
	// Member says whether a peer serves a part of the ring. It may ask the ring.
	Member(ctx context.Context, id peer.ID) bool
	// Works says whether a peer is a member, or works on one of these hosts, or did, as the host's
	// owner says. It may ask the ring.
	Works(ctx context.Context, id peer.ID, hosts func() []string) bool
	// Owns says of each key whether a peer owns it. It may ask the ring.
	Owns(ctx context.Context, id peer.ID, keys []ring.Key) []bool
	// Unpacks waits until there is memory for a large request of a peer, which takes so many bytes
	// unpacked; done gives it back. The error is ctx's.
	Unpacks(ctx context.Context, id peer.ID, bytes int64) (done func(), err error)
	// Turned notes that a request was turned away, and why. It may take a moment.
	Turned(id peer.ID, request string, why error)
}

// Service is what peers may ask for under one name: one method, or several told apart by the first
// byte of a request.
type Service []served

type served struct {
	tag     byte // 0: the service has this method alone
	request string
	who     Who
	handle  calls.Handler
}

// Raw serves requests that are no messages.
func Raw(request string, who Who, handle calls.Handler) Service {
	return Service{{request: request, who: who, handle: handle}}
}

// Refusing refuses every request: this peer, unlike others, does not have the service.
func Refusing(request string, who Who, why string) Service {
	return Raw(request, who, func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, Refuse("%s", why) })
}

// Together is a service of several methods, each with a tag of its own.
func Together(services ...Service) (all Service) {
	for _, s := range services {
		all = append(all, s...)
	}
	return all
}

// Rules says who may ask for what, a method a line.
func (s Service) Rules(say func(request string, who Who)) {
	for i := range s {
		say(s[i].request, s[i].who)
	}
}

// Handle answers a request of whomever.
func (s Service) Handle(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	m, raw, err := s.find(raw)
	if err != nil {
		return nil, err
	}
	return m.handle(ctx, from, raw)
}

// Behind answers those requests that the gate lets through, and tells it of those turned away.
func (s Service) Behind(g Gate) calls.Handler {
	return func(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
		m, raw, err := s.find(raw)
		if err != nil {
			g.Turned(from, "unknown", err)
			return nil, err
		}
		if m.who.neighbours && !g.Neighbour(from) || m.who.members && !g.Member(ctx, from) {
			err := Busy(fmt.Sprintf("%s: only who is %s may ask, and this peer does not see the caller there", m.request, m.who.Caller))
			g.Turned(from, m.request, err)
			return nil, err
		}
		answer, err := m.handle(context.WithValue(ctx, callerKey{}, caller{g, from}), from, raw)
		if Refused(err) {
			g.Turned(from, m.request, err)
		}
		return answer, err
	}
}

// find returns the method that a request is for, and the request without its tag.
func (s Service) find(raw []byte) (*served, []byte, error) {
	if len(s) == 1 && s[0].tag == 0 {
		return &s[0], raw, nil
	}
	if len(raw) == 0 {
		return nil, nil, Refuse("empty request")
	}
	for i := range s {
		if s[i].tag == raw[0] {
			return &s[i], raw[1:], nil
		}
	}
	return nil, nil, Refuse("unknown request %q", raw[0])
}
