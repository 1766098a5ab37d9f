// Package records is who keeps what: [Replication] ships each write to the next peers of the ring
// and keeps their copies here, [Keeping] moves records to whoever answers for them as the ring
// changes, and [Watch] is the ring as both of them look at it.
//
// What it promises:
//   - a write that was acknowledged is on this peer's disk and at all level replicas
//     (TestShippedWaits);
//   - join, leave, death, return and heal lose no record and leave none at two owners
//     (TestRecordsMove);
//   - a peer whose arc another serves acknowledges nothing (TestDeposed);
//   - what strangers send is checked before it is merged (TestRecordsRefused, FuzzRecordsHandle).
//
// What moves when is decided by package custody, a plain state machine; here are its goroutines,
// disk and network. All types are safe for concurrent use.
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
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/node/wire"
)

// ServiceRecords takes records that came into this peer's arc, and answers whether some of
// another's arc are still here.
const ServiceRecords = "records"

// recordsMethod brings records, or asks whether some are still there. Nothing is answered but that
// it is done.
var recordsMethod = rpc.Method[*wire.Records, *emptypb.Empty]{Service: ServiceRecords}

const (
	// pushTimeout bounds one push: the receiver answers when its disk and its replicas have it.
	pushTimeout = 20 * time.Second
	// askTimeout bounds the question to a neighbour, settleEvery is the wait between two.
	askTimeout  = 2 * time.Second
	settleEvery = 50 * time.Millisecond
)

// kind is a kind of records in this peer.
type kind struct {
	prefix byte
	mover  Mover
	keeper *custody.Keeper
	// run has fn run on the goroutine of the state machine until it says that it is through, and
	// returns when that and what it wrote is done. Questions, or other inputs, come in between.
	run   func(ctx context.Context, fn func() (through bool)) error
	clean atomic.Uint64 // Keeper.CleanAt as of its last step
	wake  chan struct{}
}

// Keeping moves records as the ring changes, and knows whether those of this peer's arc are all
// here. See package custody.
type Keeping struct {
	self   peer.ID
	router *rpc.Router
	ring   *Watch
	ship   *Replication
	log    *slog.Logger
	kinds  []*kind

	mu      sync.Mutex // guards what follows
	settler *custody.Settler
	free    ring.Arc // of which nothing lies here in copies, as of the moment before the settler's step

	wake chan struct{}
	// settled is told when the records of an arc are here.
	settled  func()
	movement *movement
	// came is told of each push that was taken in, or given away.
	came func()
}

// KeepingDeps are what a keeping uses of the peer.
type KeepingDeps struct {
	Watch       *Watch
	Router      *rpc.Router
	Replication *Replication
	// TTL is that of leases: as long one waits for records of a peer that does not answer.
	TTL time.Duration
	// Tell hears what moves, in words.
	Tell func(control.RingEvent)
	// Settled is told when the records of an arc are here, Came of each push that was taken in, or
	// given away.
	Settled, Came func()
}

// NewKeeping returns a keeping of nothing yet: see Add and AddService.
func NewKeeping(d KeepingDeps) *Keeping {
	k := keepingOf(d.Watch, d.Router, d.Replication, d.TTL)
	k.movement.tell, k.settled, k.came = d.Tell, d.Settled, d.Came
	return k
}

// keepingOf returns a keeping of nothing, which tells nobody.
func keepingOf(watch *Watch, r *rpc.Router, ship *Replication, ttl time.Duration) *Keeping {
	k := &Keeping{
		self: watch.self, router: r, ring: watch, ship: ship, log: ship.log, wake: make(chan struct{}, 1),
		settled: func() {}, came: func() {}, movement: &movement{tell: func(control.RingEvent) {}},
	}
	k.settler = custody.NewSettler(ttl, settleEvery, watch, func(arc ring.Arc) bool { return arc == k.free })
	return k
}

// AddService puts the records of a service under this keeping.
func (k *Keeping) AddService(prefix byte, s Service) {
	k.Add(prefix, merging{k.ship.store.Keyspace(prefix), s}, s.DoOver)
}

// Add puts a kind of records under this keeping. Run has fn run on the goroutine of its state
// machine, see kind.
func (k *Keeping) Add(prefix byte, m Mover, run func(ctx context.Context, fn func() (through bool)) error) {
	r := &kind{prefix: prefix, mover: m, run: run, wake: make(chan struct{}, 1)}
	read := custody.Ranged{Scan: m.Scan, Head: headOf(prefix)}
	r.keeper = custody.NewKeeper(custody.Config{}, k.self, space{read, m}, k.copiesOf(prefix), k.ring)
	k.kinds = append(k.kinds, r)
}

// copiesOf finds the records of a keyspace in the copies of other peers.
func (k *Keeping) copiesOf(prefix byte) custody.CopiesOf {
	return custody.CopiesOf{From: k.ship.copies, Prefix: prefix, Head: headOf(prefix)}
}

// Poke has everything looked at again, as the ring has changed. It does not block.
func (k *Keeping) Poke() {
	for _, r := range k.kinds {
		loop.Wake(r.wake)
	}
	loop.Wake(k.wake)
}

// Clean says whether nothing is here that belongs elsewhere, as this peer sees the ring now.
func (k *Keeping) Clean() bool {
	version := k.ring.Version() + 1
	for _, r := range k.kinds {
		if r.clean.Load() != version {
			return false
		}
	}
	return true
}

// Settled says whether the records of a key have all arrived here.
func (k *Keeping) Settled(key ring.Key) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.settler.Settled(ring.PosOf(key))
}

// Quiet says whether no records are on their way to or from this peer.
func (k *Keeping) Quiet() bool {
	k.mu.Lock()
	all := k.settler.All() || k.ring.dht.State() == dht.Worker
	k.mu.Unlock()
	return all && k.Clean()
}

// Run moves records until ctx ends.
func (k *Keeping) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	errs := make([]error, len(k.kinds)+1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, r := range k.kinds {
		wg.Go(func() {
			defer cancel()
			errs[i] = loop.UnlessStopping(k.runKind(ctx, r))
		})
	}
	errs[len(k.kinds)] = k.settle(ctx)
	cancel()
	wg.Wait()
	return errors.Join(errs...)
}

// runKind walks over one kind of records whenever the ring has changed.
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

// step lets the keeper walk on, and makes its pushes.
func (k *Keeping) step(ctx context.Context, r *kind) (next time.Time, _ error) {
	var ready custody.Ready
	var err error
	if lerr := k.soon(ctx, r, func() { ready, err = r.keeper.Tick(time.Now()) }); lerr != nil {
		return next, lerr // and err may still be written
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

// soon has fn run where a kind of records is kept, and what it writes go to the replicas without
// waiting for company.
func (k *Keeping) soon(ctx context.Context, r *kind, fn func()) error {
	defer k.ship.hurried()()
	return r.whole(ctx, fn)
}

// whole is run for what is through at once.
func (r *kind) whole(ctx context.Context, fn func()) error {
	return r.run(ctx, func() bool {
		fn()
		return true
	})
}

// HandOver waits until everything that this peer keeps is elsewhere: it has left the ring.
func (k *Keeping) HandOver(ctx context.Context) error {
	defer k.movement.end() // those who watch hear it while they are still answered
	for !k.Clean() {
		k.Poke()
		if err := loop.Sleep(ctx, 20*time.Millisecond); err != nil {
			return fmt.Errorf("some records are still here and were not handed over; they are kept on disk: %w", err)
		}
	}
	return k.ship.dismiss(ctx)
}
