package node

import (
	"context"

	"github.com/apoidea/apoidea/crawl/owner"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/custody"
)

// hostMover is what custody does with hosts. Its methods run in steps of the owner's loop.
type hostMover struct {
	ranged
	owners *owners
}

// mover returns the hosts of this peer as records that move with the ring.
func (w *owners) mover() mover {
	m := hostMover{owners: w}
	m.head = []byte{'h'}
	m.scan = func(lo, hi []byte, fn func(key, value []byte) bool) error {
		// What the step has gathered so far is to be seen.
		if err := w.loop.owner.Export(owner.Pos{}, owner.Pos{}, func(_, _ []byte) bool { return false }); err != nil {
			return err
		}
		return w.space.Scan(lo, hi, fn)
	}
	return m
}

// Note implements custody.Space.
func (m hostMover) Note(custody.Pos) []byte { return nil }

// Remove implements custody.Space.
func (m hostMover) Remove(pos custody.Pos) error {
	m.owners.loop.owner.Remove(owner.Pos(pos), owner.Pos(pos.Next()))
	return nil
}

// Import implements mover.
func (m hostMover) Import(p custody.Push) (wait func() error, err error) {
	kvs := make([]owner.KV, len(p.Records))
	for i, r := range p.Records {
		kvs[i] = owner.KV{Key: r.Key, Value: r.Value}
	}
	if err := m.owners.loop.owner.Import(kvs); err != nil {
		return nil, refuse("%v", err)
	}
	return nil, nil // the loop waits
}

// onLoop runs fn in a step of the owner and returns when that is on the disks that count.
func (w *owners) onLoop(ctx context.Context, fn func()) error {
	return w.loop.do(ctx, func(*owner.Owner) { fn() })
}

// recordsCame counts that hosts came or went, for those who wait for the ring to be idle. On the loop.
func (w *owners) recordsCame() {
	w.loop.post(func(*owner.Owner) { w.taken.hosts() })
}

// settled is told when the hosts of an arc are here.
func (w *owners) settled() {}

// awaitSettled waits until the records of a key are here, and says whether they are before ctx ends.
func (w *owners) awaitSettled(ctx context.Context, key ring.Key) bool {
	for !w.keeping.Settled(key) {
		if sleep(ctx, settleEvery/2) != nil {
			return false
		}
	}
	return true
}
