package rpc

import (
	"context"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
)

// Who describes the callers that a method accepts. Every method must have one.
type Who struct {
	// Caller is the required role of the caller, Asked the check of the request itself, both in words
	// for docs/threats.md.
	Caller, Asked string
	members       bool
	also          func(peer.ID) bool // accepts peers that are not members; may be nil
}

// Anyone accepts requests of any identity; the handler checks asked.
func Anyone(asked string) Who { return Who{Caller: "anyone", Asked: asked} }

// Members accepts requests of ring members: neighbors, and peers that a lookup finds at their own
// position. Others get busy, as their position may not be known yet.
func Members(asked string) Who { return Who{Caller: "member", Asked: asked, members: true} }

// MembersAnd accepts requests of ring members, and of peers that also reports, described by them.
func MembersAnd(them string, also func(peer.ID) bool, asked string) Who {
	return Who{Caller: "member, or " + them, Asked: asked, members: true, also: also}
}

// caller is the sender of a request, for its handler.
type caller struct {
	gate Authorizer
	id   peer.ID
}

type callerKey struct{}

// OfMember reports whether the request handled under ctx is from a member; local requests are. It
// may query the ring.
func OfMember(ctx context.Context) bool {
	c, ok := ctx.Value(callerKey{}).(caller)
	return !ok || c.gate.Member(ctx, c.id)
}

// OfWorker reports whether the request handled under ctx is from a member, or from a present or
// former worker of one of these hosts, by their owners. It may query the ring.
func OfWorker(ctx context.Context, hosts func() []string) bool {
	c, ok := ctx.Value(callerKey{}).(caller)
	return !ok || c.gate.Works(ctx, c.id, hosts)
}

// OfOwner reports for each key whether the request handled under ctx is from its owner, as seen
// from here; local requests are. It may query the ring.
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

// Rejected counts a request handled under ctx that is rejected in part, or for now.
func Rejected(ctx context.Context, request string, why error) {
	if c, ok := ctx.Value(callerKey{}).(caller); ok {
		c.gate.Rejected(c.id, request, why)
	}
}

// unpacks waits until there is memory for the request handled under ctx, or ctx ends.
func unpacks(ctx context.Context, bytes int64) (done func(), err error) {
	c, ok := ctx.Value(callerKey{}).(caller)
	if !ok {
		return func() {}, nil
	}
	return c.gate.Unpacks(ctx, c.id, bytes)
}

// Authorizer decides on the roles of callers. It is safe for concurrent use.
type Authorizer interface {
	// Member reports whether a peer is a ring member. It may query the ring.
	Member(ctx context.Context, id peer.ID) bool
	// Works reports whether a peer is a member, or a present or former worker of one of these hosts,
	// by their owners. It may query the ring.
	Works(ctx context.Context, id peer.ID, hosts func() []string) bool
	// Owns reports for each key whether a peer owns it. It may query the ring.
	Owns(ctx context.Context, id peer.ID, keys []ring.Key) []bool
	// Unpacks waits until there is memory for a large request of a peer, of that decoded size; done
	// releases it. The error is ctx's.
	Unpacks(ctx context.Context, id peer.ID, bytes int64) (done func(), err error)
	// Rejected records a rejected request and the reason. It may block for a moment.
	Rejected(id peer.ID, request string, why error)
}

// Service is the methods of one service name: one, or several with a tag as the first byte of a
// request.
type Service []served

type served struct {
	tag     byte // 0: the only method
	request string
	who     Who
	handle  calls.Handler
}

// Raw serves requests that are not messages.
func Raw(request string, who Who, handle calls.Handler) Service {
	return Service{{request: request, who: who, handle: handle}}
}

// Refusing refuses every request: this peer does not have the service.
func Refusing(request string, who Who, why string) Service {
	return Raw(request, who, func(context.Context, peer.ID, []byte) ([]byte, error) { return nil, Refuse("%s", why) })
}

// Together combines methods with different tags to one service.
func Together(services ...Service) Service { return slices.Concat(services...) }

// Rules calls say with the accepted callers of each method.
func (s Service) Rules(say func(request string, who Who)) {
	for i := range s {
		say(s[i].request, s[i].who)
	}
}

// Handle answers a request without authorization.
func (s Service) Handle(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	m, raw, err := s.find(raw)
	if err != nil {
		return nil, err
	}
	return m.handle(ctx, from, raw)
}

// Behind answers requests that the gate authorizes, and reports rejected ones to it.
func (s Service) Behind(g Authorizer) calls.Handler {
	return func(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
		m, raw, err := s.find(raw)
		if err != nil {
			g.Rejected(from, "unknown", err)
			return nil, err
		}
		if m.who.members && (m.who.also == nil || !m.who.also(from)) && !g.Member(ctx, from) {
			err := Busy(fmt.Sprintf("%s: caller not yet known as a member (normal after a join)", m.request))
			g.Rejected(from, m.request, err)
			return nil, err
		}
		answer, err := m.handle(context.WithValue(ctx, callerKey{}, caller{g, from}), from, raw)
		if Refused(err) {
			g.Rejected(from, m.request, err)
		}
		return answer, err
	}
}

// find returns the method of a request, and the request without its tag.
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

// Refuse returns the error of a request that is not served here; a retry is useless.
func Refuse(format string, args ...any) error {
	return &calls.Error{Code: calls.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

// Refused reports whether a peer has processed a request and rejected it.
func Refused(err error) bool { return calls.CodeOf(err) == calls.CodeRefused }

// Busy returns the error of a peer at a limit: the sender keeps its request and retries.
func Busy(text string) error { return &calls.Error{Code: calls.CodeBusy, Message: text} }
