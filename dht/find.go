package dht

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/wire"
)

// maxWalk bounds a walk around the ring.
const maxWalk = 1 << 17

// Lookup finds the owner of key. It costs no call when we own it, one when the owner is known or guessed right, two or three in
// a large ring. When its own search runs dry it asks Membership.Closest, once, and goes on from there. The error wraps
// ErrNoOwner or ctx's; the trace is filled in either way.
func (d *DHT) Lookup(ctx context.Context, key ring.Key) (Lookup, error) {
	search := readNow(d, func(r *Ring) *Search { return r.Search(key) })
	drive(ctx, d.transport, search, d.cfg.CallTimeout)
	found, err := search.Lookup()
	if err != nil && ctx.Err() == nil {
		near, nearErr := d.members.Closest(ctx, key)
		search.Add(near...)
		drive(ctx, d.transport, search, d.cfg.CallTimeout)
		if found, err = search.Lookup(); err != nil && nearErr != nil {
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

// Walk visits the owners around the circle, clockwise, beginning and ending with this peer's own neighbours: first its
// successor, last itself. It stops when visit returns false, or with an error where the ring cannot be followed.
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

// ChoosePosition returns the index of the candidate that splits the arc of its present owner best (design: balance of arcs). It needs
// no place in the ring: the searches begin at the entry peers. Candidates whose owner is not found do not count; the error says
// why when that is all of them, and then the index is 0.
func ChoosePosition(ctx context.Context, transport Transport, entries []Peer, candidates []ring.Key) (int, error) {
	timeout := DefaultConfig().CallTimeout
	arcs := make([]ring.Arc, len(candidates))
	errs := make([]error, len(candidates))
	var searching sync.WaitGroup
	for i, key := range candidates {
		searching.Go(func() {
			search := newSearch("", key, entries, DefaultConfig().LookupCalls)
			drive(ctx, transport, search, timeout)
			found, err := search.Lookup()
			// An arc that ends at the candidate leaves nothing to one side: the candidate is never chosen for it.
			arcs[i], errs[i] = ring.Arc{Start: key, End: key}, err
			if err == nil {
				arcs[i] = found.Arc
			}
		})
	}
	searching.Wait()
	for _, err := range errs {
		if err == nil {
			return ring.BestPosition(candidates, arcs), nil
		}
	}
	return 0, fmt.Errorf("choose a position: %w", errors.Join(errs...))
}

// drive makes the calls of a search until it is done or ctx ends; when it returns none is in flight.
func drive(ctx context.Context, transport Transport, search *Search, timeout time.Duration) {
	type answer struct {
		from Peer
		msg  *wire.Message
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	var calls sync.WaitGroup
	defer calls.Wait()
	defer cancel()
	answers := make(chan answer, search.limit+closerSent)
	for !search.Done() && ctx.Err() == nil {
		for {
			to, ok := search.Ask(time.Now())
			if !ok {
				break
			}
			calls.Go(func() {
				ctx, cancel := context.WithTimeout(ctx, timeout)
				defer cancel()
				msg, err := transport.Call(ctx, to, search.Request())
				answers <- answer{to, msg, err}
			})
		}
		a := <-answers
		search.Answer(time.Now(), a.from, a.msg, a.err)
	}
}

// after is the key behind k: its owner is the successor of a peer at k.
func after(k ring.Key) ring.Key { return k.Add(ring.Key{ring.KeySize - 1: 1}) }
