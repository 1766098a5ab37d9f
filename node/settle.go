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
type settling struct {
	arcs    atomic.Uint64 // counts changes of the arc
	handed  atomic.Uint64 // arcs when the last pass over the hosts found none that belongs elsewhere
	settled atomic.Uint64 // arcs when the successor last said so of its own
	wake    chan struct{}
}

// settleEvery is how often the successor is asked.
const settleEvery = 50 * time.Millisecond

// handleSettled answers the predecessor: nil once nothing of its arc is here any more.
func (w *owners) handleSettled(from peer.ID) error {
	arc, ok := w.arc()
	if !ok || arc.Start != ring.PeerKey([]byte(from)) || w.settling.handed.Load() != w.settling.arcs.Load() {
		return busy("hosts are still on their way")
	}
	return nil
}

// runSettling asks the successor, after each change of the arc, whether it has handed over what it kept of it, until ctx ends. What was not answered
// within the TTL of a lease is taken for settled: no lease is left by then, and a host that comes later is merged.
func (w *owners) runSettling(ctx context.Context) error {
	for {
		arcs := w.settling.arcs.Load()
		for end := time.Now().Add(w.ttl); w.settling.arcs.Load() == arcs && time.Now().Before(end) && !w.settledAt(ctx); {
			if err := sleep(ctx, settleEvery); err != nil {
				return unlessStopping(err)
			}
		}
		w.settling.settled.Store(arcs)
		if w.settling.arcs.Load() != arcs {
			continue
		}
		select {
		case <-w.settling.wake:
		case <-ctx.Done():
			return nil
		}
	}
}

// settledAt asks the successor once.
func (w *owners) settledAt(ctx context.Context) bool {
	succ, ok := w.successor()
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err := w.router.net.Call(ctx, succ, serviceHandover, nil)
	return err == nil
}

// awaitSettled waits until the hosts of the arc are here, and says whether they are before ctx ends.
func (w *owners) awaitSettled(ctx context.Context) bool {
	for w.settling.settled.Load() != w.settling.arcs.Load() {
		if sleep(ctx, settleEvery/2) != nil {
			return false
		}
	}
	return true
}
