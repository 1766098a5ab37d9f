package sim

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/services/handoff"
)

// view is the ring as the handoff sees it.
type view struct {
	c       *crawlPeer
	version uint64
	leaves  []peer.ID // nearest first, successors and predecessors in turns as the ring names them
	succs   []peer.ID
	poked   bool
}

var (
	_ handoff.View       = (*view)(nil)
	_ handoff.Neighbours = (*view)(nil)
)

func newView(c *crawlPeer) *view { return &view{c: c} }

// changed handles a ring change: it triggers replication and handoff after the current input.
func (v *view) changed() {
	v.version++
	if v.poked {
		return
	}
	v.poked = true
	v.c.Host.After(0, func() {
		v.poked = false
		v.read()
		v.c.ship.follow()
		v.c.moving.poke()
	})
}

func (v *view) read() {
	preds, succs := v.c.Leaves()
	v.leaves, v.succs = nil, nil
	for _, p := range succs {
		v.succs = append(v.succs, p.ID)
	}
	for i := range max(len(preds), len(succs)) {
		if i < len(succs) && !slices.Contains(v.leaves, succs[i].ID) {
			v.leaves = append(v.leaves, succs[i].ID)
		}
		if i < len(preds) && !slices.Contains(v.leaves, preds[i].ID) {
			v.leaves = append(v.leaves, preds[i].ID)
		}
	}
}

// Version implements handoff.View.
func (v *view) Version() uint64 { return v.version }

// Serves implements handoff.View.
func (v *view) Serves(pos ring.Pos) bool { return v.c.Serves(pos.Key()) }

// Owner implements handoff.View.
func (v *view) Owner(pos ring.Pos) (peer.ID, bool) {
	p, ok := v.c.Guess(pos.Key())
	return p.ID, ok
}

// Departs implements handoff.View: no goodbyes here.
func (v *view) Departs(peer.ID) bool { return false }

// Knows implements handoff.View.
func (v *view) Knows(peer.ID) bool { return false }

// Left implements handoff.Neighbours: failures are not recorded here.
func (v *view) Left(peer.ID) (at time.Time, seen bool) { return time.Time{}, false }

// Arc implements handoff.Neighbours.
func (v *view) Arc() (ring.Arc, bool) { return v.c.Arc() }

// Neighbours implements handoff.Neighbours.
func (v *view) Neighbours() []peer.ID { return slices.Clone(v.leaves) }
