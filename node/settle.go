package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
)

// settling tells whether the hosts of this peer's arc are all here. A peer that takes an arc over from a living one would otherwise grant a host
// that a fresh link names before the host's record arrives, and with it the lease that its last owner granted.
//
// Both sides compare arcs and not events, which come after the fact.
type settling struct {
	handed  atomic.Pointer[ring.Arc] // the arc at the last pass over the hosts that found none which belongs elsewhere
	settled atomic.Pointer[ring.Arc] // the arc of which the successor said that all of it is here
	wake    chan struct{}
}

// is says whether a noted arc is the one that is served now.
func (w *owners) is(noted *atomic.Pointer[ring.Arc]) bool {
	arc, ok := w.arc()
	was := noted.Load()
	return ok && was != nil && *was == arc
}

// poke has the arc looked at. It does not block.
func (s *settling) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// settleEvery is how often the successor is asked.
const settleEvery = 50 * time.Millisecond

// The questions of a predecessor. A peer that serves the arc of its last run asks whether its successor, which may have stood in for it, has handed
// all over. Any other also asks whether the successor's own arc has settled: what belongs to the newcomer may still be on its way to the successor.
// The first does not wait for others, so that a ring which restarts as a whole does not wait in a circle.
var (
	askHanded  = []byte{'h'}
	askSettled = []byte{'s'}
)

// handleSettled answers the predecessor: nil once nothing of its arc is here any more, nor on its way here.
func (w *owners) handleSettled(from peer.ID, question byte) error {
	arc, ok := w.arc()
	if !ok || question == askSettled[0] && !w.is(&w.settling.settled) || arc.Start != ring.PeerKey([]byte(from)) || !w.is(&w.settling.handed) {
		return busy("hosts are still on their way")
	}
	return nil
}

// runSettling asks the successor, after each change of the arc, whether it has handed over what it kept of it, until ctx ends. What was not answered
// within the TTL of a lease is taken for settled: no lease is left by then, and a host that comes later is merged.
func (w *owners) runSettling(ctx context.Context) error {
	tick := time.NewTicker(settleEvery)
	defer tick.Stop()
	var arc ring.Arc // that is being asked about, since begun
	var begun time.Time
	for {
		now, ok := w.arc()
		switch {
		case !ok || w.is(&w.settling.settled):
			begun = time.Time{}
		case begun.IsZero() || now != arc:
			arc, begun = now, time.Now()
			fallthrough
		default:
			if was := w.settling.settled.Load(); was != nil && was.Holds(now) || w.settledAt(ctx, now) || time.Since(begun) >= w.ttl {
				w.settling.settled.Store(&now)
			}
		}
		wait := tick.C
		if begun.IsZero() {
			wait = nil // nothing is open
		}
		select {
		case <-wait:
		case <-w.settling.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// settledAt asks the successor once.
func (w *owners) settledAt(ctx context.Context, arc ring.Arc) bool {
	succ, ok := w.successor()
	if !ok {
		return true
	}
	question := askSettled
	if last, ok := w.lastArc(); ok && last.Holds(arc) {
		question = askHanded
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := w.router.net.Call(ctx, succ, serviceHandover, question)
	return err == nil
}

// awaitSettled waits until the hosts of the arc are here, and says whether they are before ctx ends.
func (w *owners) awaitSettled(ctx context.Context) bool {
	for !w.is(&w.settling.settled) {
		w.settling.poke()
		if sleep(ctx, settleEvery/2) != nil {
			return false
		}
	}
	return true
}
