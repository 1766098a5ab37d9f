// Package rpc implements calls between the peers of a ring: a [Method] defines the types of request
// and answer, and a [Router] finds the owner of a key.
//
// Guarantees:
//   - a handler gets no request that exceeds its limits, and a caller no such answer; both are
//     counted before decoding (TestCountedBeforeUnpacked, TestStrangersMessagesTakeLittle in node);
//   - every method declares its authorized callers; rejections are reported to the [Gate]
//     (TestCallers, TestRefusedIsTold, TestMembers in node);
//   - of the large requests of a peer to a method one is decoded or handled at a time
//     (TestLargeRequestsTakeTurns);
//   - most requests need no lookup: the likely owner is called directly; if it does not serve the
//     key, it answers `moved` with a hint (TestRoute);
//   - a call ends when its context does, whatever the other side does
//     (TestRouteEndsWithItsContext).
package rpc

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/sizelimit"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/loop"
)

// Services with methods of several packages, each with its tag: of owners of hosts, and of their
// workers.
const (
	ServiceOwner  = "owner"
	ServiceWorker = "worker"
)

// MaxHops is the maximum number of `moved` answers that a request follows (design, section 4).
const MaxHops = 8

// HopPause is the delay before an unaccepted request is sent again: the ring has a gap.
const HopPause = 150 * time.Millisecond

// Caller sends a request to a peer and returns its answer: p2p.Net, or a [Router], which learns
// from it.
type Caller interface {
	// Call returns the answer, or a p2p error with a code.
	Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error)
}

// Owners sends a request to the owner of a key: a [Router].
type Owners interface {
	// CallOwner returns the answer of the peer that serves the key.
	CallOwner(ctx context.Context, key ring.Key, service string, req []byte) ([]byte, error)
}

// CallerFunc is a function that sends requests.
type CallerFunc func(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error)

// Call implements Caller.
func (f CallerFunc) Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	return f(ctx, to, service, req)
}

// Ring is the part of dht.DHT that routing uses.
type Ring interface {
	// Serves reports whether this peer serves the key now.
	Serves(key ring.Key) bool
	// Guess returns the likely owner without network calls.
	Guess(key ring.Key) (dht.Peer, bool)
	// Hint returns the content of a moved answer.
	Hint(key ring.Key) *dhtwire.Hint
	// Learn takes hints of other peers.
	Learn(hints ...*dhtwire.Hint)
	// Lookup looks up the owner.
	Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error)
	// Unreachable reports that a peer could not be reached, so that it is not guessed for a while.
	Unreachable(id peer.ID)
}

// Router routes requests to the owners of keys. It calls the likely owner directly; a peer that
// does not serve the key answers `moved` with a hint, so that most requests need no lookup.
type Router struct {
	Ring Ring   // this peer's view of the ring
	Net  Caller // carries the calls
}

var (
	_ Caller = (*Router)(nil)
	_ Owners = (*Router)(nil)
)

// Owner returns the peer to try for a key: the likely one, or with fresh, after a failure, a
// looked-up one.
func (r *Router) Owner(ctx context.Context, key ring.Key, fresh bool) (dht.Peer, error) {
	if !fresh {
		if p, ok := r.Ring.Guess(key); ok {
			return p, nil
		}
	}
	l, err := r.Ring.Lookup(ctx, key)
	if err != nil {
		return dht.Peer{}, fmt.Errorf("owner of key %s: %w", key, err)
	}
	return l.Owner, nil
}

// CallOwner calls the owner of a key. It follows `moved` and waits out short gaps until ctx ends or
// MaxHops is reached.
func (r *Router) CallOwner(ctx context.Context, key ring.Key, service string, req []byte) ([]byte, error) {
	var last error
	fresh := false
	for range MaxHops {
		to, err := r.Owner(ctx, key, fresh)
		if err == nil {
			var answer []byte
			if answer, err = r.Call(ctx, to.ID, service, req); err == nil {
				return answer, nil
			}
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), last)
		}
		last = err
		fresh = true
		switch calls.CodeOf(err) {
		case calls.CodeMoved:
			if p, ok := r.Ring.Guess(key); ok && p.ID != to.ID {
				fresh = false
				continue
			}
		case calls.CodeRefused, calls.CodeVersion, calls.CodeInternal:
			return nil, err
		}
		if err := loop.Sleep(ctx, HopPause); err != nil {
			return nil, errors.Join(err, last)
		}
	}
	return nil, last
}

// Call calls one peer, and reports to the ring if the peer is unreachable, or which peer serves the
// key instead.
func (r *Router) Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	answer, err := r.Net.Call(ctx, to, service, req)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, calls.ErrUnreachable):
		r.Ring.Unreachable(to)
	case calls.CodeOf(err) == calls.CodeMoved:
		r.learn(err)
	}
	return nil, err
}

// learn takes the hint of a moved answer.
func (r *Router) learn(err error) {
	e, ok := errors.AsType[*calls.Error](err)
	if !ok || len(e.Detail) == 0 {
		return
	}
	hint := new(dhtwire.Hint)
	if sizelimit.Unmarshal(e.Detail, hint) == nil && hint.Validate() == nil {
		r.Ring.Learn(hint)
	}
}

// Moved returns the answer to a request for a key that this peer does not serve.
func (r *Router) Moved(key ring.Key) error {
	e := &calls.Error{Code: calls.CodeMoved, Message: "another peer serves this key"}
	if hint := r.Ring.Hint(key); hint != nil {
		if raw, err := proto.Marshal(hint); err == nil && len(raw) <= calls.MaxErrorDetail {
			e.Detail = raw
		}
	}
	return e
}
