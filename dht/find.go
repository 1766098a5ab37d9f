package dht

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
)

// maxWalk bounds a walk around the ring.
const maxWalk = 1 << 17

// ErrNoOwner is the end of a lookup that found nobody who answers for the key within its bound of
// calls.
var ErrNoOwner = lookup.ErrNoOwner

// Lookup is what a search for the owner of a key found.
type Lookup = lookup.Found

// Lookup finds the owner of key. It costs no call when we own it, one when the owner is known or
// guessed right, two or three in a large ring. When its own search runs dry it asks
// Membership.Closest, once, and goes on from there. The error wraps ErrNoOwner or ctx's; the trace
// is filled in either way.
func (d *DHT) Lookup(ctx context.Context, key ring.Key) (Lookup, error) {
	search := readNow(d, func(r *Ring) *lookup.Search { return r.Search(key) })
	lookup.Drive(ctx, d.transport.Call, search, d.cfg.CallTimeout)
	found, err := search.Found()
	if err != nil && ctx.Err() == nil {
		near, nearErr := d.members.Closest(ctx, key)
		search.Add(near...)
		lookup.Drive(ctx, d.transport.Call, search, d.cfg.CallTimeout)
		if found, err = search.Found(); err != nil && nearErr != nil {
			err = fmt.Errorf("%w; closest peers: %w", err, nearErr)
		}
	}
	if ctx.Err() != nil {
		return found, fmt.Errorf("look up %s: %w", key, ctx.Err())
	}
	d.do(func(r *Ring, now time.Time) {
		for _, hop := range found.Trace {
			if hop.Err != nil {
				r.Unreachable(now, hop.Peer.ID)
			}
		}
		if err == nil {
			r.Found(found)
		}
	})
	return found, err
}

// Walk visits the owners around the circle, clockwise, beginning and ending with this peer's own
// neighbours: first its successor, last itself. It stops when visit returns false, or with an error
// where the ring cannot be followed.
func (d *DHT) Walk(ctx context.Context, visit func(Lookup) bool) error {
	self := d.Self()
	at := self.Key()
	for range maxWalk {
		next, err := d.Lookup(ctx, after(at))
		if err != nil {
			return fmt.Errorf("walk from %s: %w", at, err)
		}
		if !visit(next) || next.Owner.ID == self.ID {
			return nil
		}
		if ring.Between(at, self.Key(), next.Owner.Key()) {
			return fmt.Errorf("walk from %s: %s does not know this peer", at, next.Owner)
		}
		at = next.Owner.Key()
	}
	return errors.New("walk: the ring has no end")
}

// after is the key behind k: its owner is the successor of a peer at k.
func after(k ring.Key) ring.Key { return k.Add(ring.Key{ring.KeySize - 1: 1}) }
