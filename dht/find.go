package dht

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apoidea/apoidea/dht/lookup"
	"github.com/apoidea/apoidea/dht/ring"
)

// maxWalk is the maximum number of steps of a walk around the ring.
const maxWalk = 1 << 17

// ErrNoOwner reports a lookup that found no owner of the key within its limit of calls.
var ErrNoOwner = lookup.ErrNoOwner

// Lookup is the result of a lookup.
type Lookup = lookup.Found

// Lookup finds the owner of key. It needs no call if this peer is the owner, one if the owner is
// known or guessed, two or three in a large ring. If its own search fails it asks
// Membership.Closest once, and continues. The error wraps ErrNoOwner or ctx's; the trace is always
// filled in.
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

// Walk visits the owners clockwise around the circle, from this peer's successor to the peer
// itself. It stops when visit returns false, or with an error if the ring cannot be followed.
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
			return fmt.Errorf("walk from %s: %s does not list this peer", at, next.Owner)
		}
		at = next.Owner.Key()
	}
	return errors.New("walk: ring does not close")
}

// after returns the key after k: its owner is the successor of a peer at k.
func after(k ring.Key) ring.Key { return k.Add(ring.Key{ring.KeySize - 1: 1}) }
