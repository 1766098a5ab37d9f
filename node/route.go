package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/p2p"
	"github.com/apoidea/apoidea/dht/ring"
	dhtwire "github.com/apoidea/apoidea/dht/wire"
	"github.com/apoidea/apoidea/node/loop"
)

// maxHops bounds how often a request follows `moved` (design, section 4).
const maxHops = 8

// hopPause is the wait before a request is sent again that nobody took: the ring is closing a gap.
const hopPause = 150 * time.Millisecond

// caller sends a request to a peer and brings back its answer: p2p.Net.
type caller interface {
	Call(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error)
}

// ringView is what routing asks of the ring: dht.DHT.
type ringView interface {
	// Serves says whether this peer answers for the key now.
	Serves(key ring.Key) bool
	// Guess names the believed owner without asking anybody.
	Guess(key ring.Key) (dht.Peer, bool)
	// Hint is what a moved answer carries.
	Hint(key ring.Key) *dhtwire.Hint
	// Learn takes in hints of other peers.
	Learn(hints ...*dhtwire.Hint)
	// Lookup asks around for the owner.
	Lookup(ctx context.Context, key ring.Key) (dht.Lookup, error)
	// Unreachable tells that a peer could not be asked, so that it is not guessed for a while.
	Unreachable(id peer.ID)
}

// router finds the owners of keys. The believed owner is asked directly; what it does not serve it answers with `moved` and a hint, so
// that the usual request needs no lookup.
type router struct {
	ring ringView
	net  caller
}

// owner returns the peer to try for a key: the believed one, or after a failed try one that was just looked up.
func (r *router) owner(ctx context.Context, key ring.Key, fresh bool) (dht.Peer, error) {
	if !fresh {
		if p, ok := r.ring.Guess(key); ok {
			return p, nil
		}
	}
	l, err := r.ring.Lookup(ctx, key)
	if err != nil {
		return dht.Peer{}, fmt.Errorf("owner of key %s: %w", key, err)
	}
	return l.Owner, nil
}

// call asks the owner of a key, following `moved` and waiting out short gaps until ctx ends or the hops are used up.
func (r *router) call(ctx context.Context, key ring.Key, service string, req []byte) ([]byte, error) {
	var last error
	fresh := false
	for range maxHops {
		to, err := r.owner(ctx, key, fresh)
		if err == nil {
			var answer []byte
			if answer, err = r.send(ctx, to.ID, service, req); err == nil {
				return answer, nil
			}
		}
		if ctx.Err() != nil {
			return nil, errors.Join(ctx.Err(), last)
		}
		last = err
		fresh = true
		switch p2p.CodeOf(err) {
		case p2p.CodeMoved:
			if p, ok := r.ring.Guess(key); ok && p.ID != to.ID {
				fresh = false
				continue
			}
		case p2p.CodeRefused, p2p.CodeVersion, p2p.CodeInternal:
			return nil, err
		}
		if err := loop.Sleep(ctx, hopPause); err != nil {
			return nil, errors.Join(err, last)
		}
	}
	return nil, last
}

// send asks one peer, and tells the ring what it learns by that: that the peer cannot be reached, or who serves the key instead.
func (r *router) send(ctx context.Context, to peer.ID, service string, req []byte) ([]byte, error) {
	answer, err := r.net.Call(ctx, to, service, req)
	switch {
	case err == nil:
		return answer, nil
	case errors.Is(err, p2p.ErrUnreachable):
		r.ring.Unreachable(to)
	case p2p.CodeOf(err) == p2p.CodeMoved:
		r.learn(err)
	}
	return nil, err
}

// learn takes in the hint of a moved answer.
func (r *router) learn(err error) {
	e, ok := errors.AsType[*p2p.Error](err)
	if !ok || len(e.Detail) == 0 {
		return
	}
	hint := new(dhtwire.Hint)
	if proto.Unmarshal(e.Detail, hint) == nil && hint.Validate() == nil {
		r.ring.Learn(hint)
	}
}

// moved is the answer to a request for a key that this peer does not serve.
func (r *router) moved(key ring.Key) error {
	e := &p2p.Error{Code: p2p.CodeMoved, Message: "another peer serves this key"}
	if hint := r.ring.Hint(key); hint != nil {
		if raw, err := proto.Marshal(hint); err == nil && len(raw) <= p2p.MaxErrorDetail {
			e.Detail = raw
		}
	}
	return e
}

// refuse is the answer to a request that is not served here, now or ever.
func refuse(format string, args ...any) error {
	return &p2p.Error{Code: p2p.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

// busy is the answer of a peer at a bound: the sender keeps its work and comes back.
func busy(text string) error { return &p2p.Error{Code: p2p.CodeBusy, Message: text} }
