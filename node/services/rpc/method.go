package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/sizelimit"
)

// Message is a message that validates its own limits. Those of the node are in node/services/wire
// and crawl/wire.
type Message interface {
	proto.Message
	Validate() error // fails if a limit is exceeded
}

// Method is one method of a service, shared by both sides: the types of request and answer, and the
// check of an answer.
type Method[Req Message, Resp proto.Message] struct {
	Service string // name of the service
	// Tag is the first byte of a request to a service with several methods, see [Together]; 0 if it is
	// the only one.
	Tag byte
	// Within is the timeout of a call; 0: only that of the caller's context.
	Within time.Duration
	// Check validates an answer against its request. It may be nil: an answer's own Validate is called
	// in any case.
	Check func(req Req, resp Resp) error
}

// Handle serves requests of authorized callers. fn gets valid ones; all others are refused. It gets
// large requests of a peer one at a time.
func (m Method[Req, Resp]) Handle(who Who, fn func(ctx context.Context, from peer.ID, req Req) (Resp, error)) Service {
	name := string(fresh[Req]().ProtoReflect().Descriptor().Name())
	return Service{{tag: m.Tag, request: name, who: who, handle: m.handler(fn)}}
}

func (m Method[Req, Resp]) handler(fn func(ctx context.Context, from peer.ID, req Req) (Resp, error)) calls.Handler {
	var large turns
	return func(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
		req := fresh[Req]()
		c, err := sizelimit.Count(raw, req)
		if err != nil {
			return nil, Refuse("%v", err)
		}
		if c.Memory > largeMemory {
			if err := large.take(ctx, from); err != nil {
				return nil, err
			}
			defer large.release(from)
			done, err := unpacks(ctx, int64(c.Memory))
			if err != nil {
				return nil, err
			}
			defer done()
		}
		if err := unpack(&c, req); err != nil {
			return nil, err
		}
		resp, err := fn(ctx, from, req)
		if err != nil {
			return nil, err
		}
		return proto.Marshal(resp)
	}
}

// Call calls one peer.
func (m Method[Req, Resp]) Call(ctx context.Context, via Caller, to peer.ID, req Req) (Resp, error) {
	return m.call(ctx, req, func(ctx context.Context, raw []byte) ([]byte, error) { return via.Call(ctx, to, m.Service, raw) })
}

// CallOwner calls the owner of a key, see [Router.CallOwner].
func (m Method[Req, Resp]) CallOwner(ctx context.Context, via Owners, key ring.Key, req Req) (Resp, error) {
	return m.call(ctx, req, func(ctx context.Context, raw []byte) ([]byte, error) { return via.CallOwner(ctx, key, m.Service, raw) })
}

func (m Method[Req, Resp]) call(ctx context.Context, req Req, send func(context.Context, []byte) ([]byte, error)) (none Resp, err error) {
	if m.Within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.Within)
		defer cancel()
	}
	raw, err := m.encode(req)
	if err != nil {
		return none, err
	}
	answer, err := send(ctx, raw)
	if err != nil {
		return none, err
	}
	resp := fresh[Resp]()
	if err := sizelimit.Unmarshal(answer, resp); err != nil {
		return none, fmt.Errorf("answer of service %s: %w", m.Service, err)
	}
	return resp, m.check(req, resp)
}

func (m Method[Req, Resp]) encode(req Req) ([]byte, error) {
	if m.Tag == 0 {
		return proto.Marshal(req)
	}
	return proto.MarshalOptions{}.MarshalAppend([]byte{m.Tag}, req)
}

func (m Method[Req, Resp]) check(req Req, resp Resp) error {
	if bounded, ok := any(resp).(Message); ok {
		if err := bounded.Validate(); err != nil {
			return err
		}
	}
	if m.Check == nil {
		return nil
	}
	return m.Check(req, resp)
}

// fresh returns an empty message: M is a pointer to one.
func fresh[M proto.Message]() M {
	var none M
	return none.ProtoReflect().New().Interface().(M)
}

// Decode decodes an untrusted message into an empty one, and rejects malformed or invalid ones.
func Decode(raw []byte, m Message) error {
	c, err := sizelimit.Count(raw, m)
	if err != nil {
		return Refuse("%v", err)
	}
	return unpack(&c, m)
}

func unpack(c *sizelimit.Counted, m Message) error {
	if err := c.Unpack(); err != nil {
		return Refuse("%v", err)
	}
	if err := m.Validate(); err != nil {
		return Refuse("%v", err)
	}
	return nil
}
