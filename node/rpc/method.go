package rpc

import (
	"context"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/counted"
	"github.com/apoidea/apoidea/dht/ring"
)

// Message is a message that checks its own bounds. The node's are in node/wire and crawl/wire.
type Message interface {
	proto.Message
	Validate() error // fails where a stranger's message breaks a bound
}

// Method is one thing that a service can be asked, which both sides name: what goes out, what comes
// back, and what an answer must hold.
type Method[Req Message, Resp proto.Message] struct {
	Service string // name of the service
	// Tag is the first byte of a request to a service that has several methods, see [Together]; 0
	// where there is one.
	Tag byte
	// Within bounds a call in time; 0: it takes no longer than the caller's context lasts.
	Within time.Duration
	// Check holds an answer against its question. It may be nil: an answer that checks its own
	// bounds is asked to in any case.
	Check func(req Req, resp Resp) error
}

// Handle serves requests of those who may make them. Fn gets those that keep their bounds; all
// others are refused. Of the large ones of a peer it gets one at a time.
func (m Method[Req, Resp]) Handle(who Who, fn func(ctx context.Context, from peer.ID, req Req) (Resp, error)) Service {
	name := string(fresh[Req]().ProtoReflect().Descriptor().Name())
	return Service{{tag: m.Tag, request: name, who: who, handle: m.handler(fn)}}
}

func (m Method[Req, Resp]) handler(fn func(ctx context.Context, from peer.ID, req Req) (Resp, error)) calls.Handler {
	var large turns
	return func(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
		req := fresh[Req]()
		c, err := counted.Count(raw, req)
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

// Call asks one peer.
func (m Method[Req, Resp]) Call(ctx context.Context, via Caller, to peer.ID, req Req) (Resp, error) {
	return m.call(ctx, req, func(ctx context.Context, raw []byte) ([]byte, error) { return via.Call(ctx, to, m.Service, raw) })
}

// CallOwner asks the owner of a key, see [Router.CallOwner].
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
	if err := counted.Unmarshal(answer, resp); err != nil {
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

// Decode reads what a stranger sent into an empty message, and refuses what cannot be read or does
// not keep its bounds.
func Decode(raw []byte, m Message) error {
	c, err := counted.Count(raw, m)
	if err != nil {
		return Refuse("%v", err)
	}
	return unpack(&c, m)
}

func unpack(c *counted.Counted, m Message) error {
	if err := c.Unpack(); err != nil {
		return Refuse("%v", err)
	}
	if err := m.Validate(); err != nil {
		return Refuse("%v", err)
	}
	return nil
}
