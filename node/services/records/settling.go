package records

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// answer answers a neighbor that nothing of its arc is here, or that it must retry. A joining peer
// answers for what it holds already, so that it delays no neighbor.
func (k *Keeping) answer(ctx context.Context, from peer.ID, arc ring.Arc) error {
	free, err := k.isFree(ctx, arc)
	switch {
	case err != nil:
		return err
	case free && k.ring.dht.State() == dht.Joining, handoff.Answers(from, arc, k.ring, free) == handoff.Nothing:
		return nil
	default:
		return errOnTheWay
	}
}

// isFree reports whether nothing is here that must be moved into an arc.
func (k *Keeping) isFree(ctx context.Context, arc ring.Arc) (bool, error) {
	if k.Clean() {
		return true, nil
	}
	for _, r := range k.kinds {
		var free bool
		var err error
		if lerr := r.whole(ctx, func() { free, err = r.keeper.Free(arc) }); lerr != nil {
			return false, lerr
		}
		if !free || err != nil {
			return false, err
		}
	}
	return true, nil
}

var errOnTheWay = rpc.Busy("records are still in transit")

// look checks for the settler whether any copies here belong to this peer's arc.
func (k *Keeping) look(ctx context.Context) error {
	arc, serves := k.ring.Arc()
	k.mu.Lock()
	known := !serves || k.settler.All()
	k.mu.Unlock()
	if known {
		return nil
	}
	free, err := k.isFree(ctx, arc)
	if err != nil {
		return loop.UnlessStopping(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.free = (ring.Arc{}); free {
		k.free = arc
	}
	return nil
}

// settle queries the neighbors, after each change of the arc, whether they hold anything of it,
// until ctx ends.
func (k *Keeping) settle(ctx context.Context) error {
	var asking sync.WaitGroup
	defer asking.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := k.look(ctx); err != nil {
			return err
		}
		var asks []handoff.Ask
		var changed bool
		var next time.Time
		if !k.ship.recovering.Load() { // nothing of its arc is granted before
			k.mu.Lock()
			asks, changed, next = k.settler.Tick(time.Now())
			k.mu.Unlock()
		}
		if changed {
			k.settled()
		}
		for _, ask := range asks {
			asking.Go(func() { k.ask(ctx, ask) })
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(time.Millisecond, time.Until(next))
		}
		if rest := k.movement.flush(time.Now()); rest > 0 {
			wait = min(wait, rest)
		}
		timer.Reset(wait)
		select {
		case <-k.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

func (k *Keeping) ask(ctx context.Context, ask handoff.Ask) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := recordsMethod.Call(ctx, k.router.Net, ask.To, &wire.Records{Ask: ask.Arc.Start[:]})
	answer := handoff.Nothing
	if err != nil {
		answer = handoff.NotYet
		if errors.Is(err, calls.ErrUnreachable) && k.ring.gone(ask.To) {
			k.Poke()
		}
	}
	k.mu.Lock()
	k.settler.Result(time.Now(), ask.ID, answer)
	k.mu.Unlock()
	loop.Wake(k.wake)
}
