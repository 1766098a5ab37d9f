// Package records stores records where the ring places them: [Replication] ships each write to the
// next peers of the ring and stores their copies here, [Keeping] moves records to their owners as
// the ring changes, and [Watch] is the view of the ring that both use.
//
// Guarantees:
//   - an acknowledged write is on this peer's disk and at all replicas in sync (TestShippedWaits);
//   - join, leave, death, return and heal lose no record and leave none at two owners
//     (TestRecordsMove);
//   - a peer whose arc is served by another acknowledges nothing (TestDeposed);
//   - a peer whose database was replaced pulls its records before it ships any (TestRecovery);
//   - records from untrusted peers are validated before they are merged (TestRecordsRefused,
//     FuzzRecordsHandle).
//
// Package handoff, a plain state machine, decides what moves when; goroutines, disk and network are
// here. All types are safe for concurrent use.
package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/apoidea/apoidea/dht"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/control"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/node/services/wire"
)

// ServiceRecords accepts records of this peer's arc, and answers whether any of another's arc are
// still here.
const ServiceRecords = "records"

// recordsMethod sends records, or queries whether some are still there. The reply is empty.
var recordsMethod = rpc.Method[*wire.Records, *emptypb.Empty]{Service: ServiceRecords}

const (
	// pushTimeout is the timeout of one push: the receiver answers when its disk and its replicas have
	// it.
	pushTimeout = 20 * time.Second
	// askTimeout is the timeout of a query to a neighbor, settleEvery the interval between two.
	askTimeout  = 2 * time.Second
	settleEvery = 50 * time.Millisecond
)

// kind is a kind of records in this peer.
type kind struct {
	prefix byte
	mover  Mover
	keeper *handoff.Keeper
	// run runs fn on the goroutine of the state machine until it returns true, and returns when that
	// and its writes are done. Other inputs may be processed in between.
	run   func(ctx context.Context, fn func() (through bool)) error
	clean atomic.Uint64 // Keeper.CleanAt as of its last step
	wake  chan struct{}
}

// Keeping moves records as the ring changes, and tracks whether those of this peer's arc are all
// here. See package handoff.
type Keeping struct {
	self   peer.ID
	router *rpc.Router
	ring   *Watch
	ship   *Replication
	log    *slog.Logger
	kinds  []*kind

	mu      sync.Mutex // guards what follows
	settler *handoff.Settler
	free    ring.Arc // free of copies to be moved, as of the moment before the settler's step

	wake chan struct{}
	// settled is called when the records of an arc are synced.
	settled  func()
	movement *movement
	// came is called after each push that was accepted, or handed off.
	came func()
	// recovered is called when the records of a replaced database are here.
	recovered func() error
	ttl       time.Duration
}

// KeepingDeps are the dependencies of a Keeping.
type KeepingDeps struct {
	Watch       *Watch
	Router      *rpc.Router
	Replication *Replication
	// TTL is that of leases: the longest wait for records of an unresponsive peer.
	TTL time.Duration
	// Tell is called with descriptions of record movements.
	Tell func(control.RingEvent)
	// Settled is called when the records of an arc are synced, Came after each push that was accepted,
	// or handed off.
	Settled, Came func()
	// Recovered is called when the records of a replaced database are here, see Replication.
	Recovered func() error
}

// NewKeeping returns a Keeping without records: see Add and AddService.
func NewKeeping(d KeepingDeps) *Keeping {
	k := keepingOf(d.Watch, d.Router, d.Replication, d.TTL)
	k.movement.tell, k.settled, k.came, k.recovered = d.Tell, d.Settled, d.Came, d.Recovered
	return k
}

// keepingOf returns a Keeping without records and callbacks.
func keepingOf(watch *Watch, r *rpc.Router, ship *Replication, ttl time.Duration) *Keeping {
	k := &Keeping{
		self: watch.self, router: r, ring: watch, ship: ship, log: ship.log, wake: make(chan struct{}, 1),
		settled: func() {}, came: func() {}, recovered: func() error { return nil }, ttl: ttl, movement: &movement{tell: func(control.RingEvent) {}},
	}
	k.settler = handoff.NewSettler(ttl, settleEvery, watch, func(arc ring.Arc) bool { return arc == k.free })
	return k
}

// AddService adds the records of a state machine that runs on a loop. Imported, if not nil, is
// called on it after each import.
func (k *Keeping) AddService(prefix byte, loop *loop.Serial, s State, imported func()) {
	k.Add(prefix, merging{k.ship.store.Keyspace(prefix), s, imported}, loop.DoOver)
}

// Add adds a kind of records. Run runs fn on the goroutine of its state machine, see kind.
func (k *Keeping) Add(prefix byte, m Mover, run func(ctx context.Context, fn func() (through bool)) error) {
	r := &kind{prefix: prefix, mover: m, run: run, wake: make(chan struct{}, 1)}
	read := handoff.Ranged{Scan: m.Scan, Head: headOf(prefix)}
	r.keeper = handoff.NewKeeper(handoff.Config{}, k.self, space{read, m}, k.copiesOf(prefix), k.ring)
	k.kinds = append(k.kinds, r)
}

// copiesOf returns the copies of other peers' records in a keyspace.
func (k *Keeping) copiesOf(prefix byte) handoff.CopiesOf {
	return handoff.CopiesOf{From: k.ship.copies, Prefix: prefix, Head: headOf(prefix)}
}

// Poke starts a check of everything, as the ring has changed. It does not block.
func (k *Keeping) Poke() {
	for _, r := range k.kinds {
		loop.Wake(r.wake)
	}
	loop.Wake(k.wake)
}

// Clean reports whether no records are here that belong elsewhere, in this peer's current view of
// the ring.
func (k *Keeping) Clean() bool {
	version := k.ring.Version() + 1
	for _, r := range k.kinds {
		if r.clean.Load() != version {
			return false
		}
	}
	return true
}

// Settled reports whether the records of a key have all arrived here.
func (k *Keeping) Settled(key ring.Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settler.Settled(ring.PosOf(key))
}

// Quiet reports whether no records are in transit to or from this peer.
func (k *Keeping) Quiet() bool {
	k.mu.Lock()
	all := k.settler.All() || k.ring.dht.State() == dht.Worker
	k.mu.Unlock()
	return all && k.Clean()
}

// Run moves records until ctx ends.
func (k *Keeping) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(k.kinds)+2)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, r := range k.kinds {
		wg.Go(func() {
			defer cancel()
			errs[i] = loop.UnlessStopping(k.runKind(ctx, r))
		})
	}
	wg.Go(func() {
		if err := k.recover(ctx); err != nil {
			errs[len(k.kinds)+1] = loop.UnlessStopping(err)
			cancel()
		}
	})
	errs[len(k.kinds)] = k.settle(ctx)
	cancel()
	wg.Wait()
	return errors.Join(errs...)
}

// runKind walks over one kind of records after each change of the ring.
func (k *Keeping) runKind(ctx context.Context, r *kind) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		next, err := k.step(ctx, r)
		if err != nil {
			return err
		}
		wait := time.Hour
		if !next.IsZero() {
			wait = max(0, time.Until(next))
		}
		timer.Reset(wait)
	}
}

// step continues the keeper's walk, and makes its pushes.
func (k *Keeping) step(ctx context.Context, r *kind) (next time.Time, _ error) {
	var ready handoff.Ready
	var err error
	if lerr := k.soon(ctx, r, func() { ready, err = r.keeper.Tick(time.Now()) }); lerr != nil {
		return next, lerr // err may not be set yet
	}
	if err != nil {
		return next, err
	}
	if err := k.drop(ctx, r, ready.Drops); err != nil {
		return next, err
	}
	for _, call := range ready.Calls {
		if err := k.make(ctx, r, call); err != nil {
			return next, err
		}
		ready.Next = time.Now()
	}
	if was := r.clean.Swap(r.keeper.CleanAt()); was != r.clean.Load() {
		loop.Wake(k.wake)
	}
	return ready.Next, nil
}

// soon runs fn with the state machine of a kind of records, and ships its writes to the replicas
// without batching delay.
func (k *Keeping) soon(ctx context.Context, r *kind, fn func()) error {
	defer k.ship.hurried()()
	return r.whole(ctx, fn)
}

// whole is run for a function that completes in one call.
func (r *kind) whole(ctx context.Context, fn func()) error {
	return r.run(ctx, func() bool {
		fn()
		return true
	})
}

// HandOver waits until all records of this peer are elsewhere: it has left the ring.
func (k *Keeping) HandOver(ctx context.Context) error {
	defer k.movement.end() // report while watchers are still connected
	for !k.Clean() {
		k.Poke()
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("handoff incomplete; remaining records are retained on disk: %w", err)
		}
	}
	return k.ship.dismiss(ctx)
}
