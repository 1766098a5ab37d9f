package records

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/apoidea/apoidea/dht/calls"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/handoff"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// ServiceReplica accepts the messages with which a peer keeps its replicas in sync.
const ServiceReplica = "replica"

// replicaTimeout is the timeout of one message: the follower answers when its disk has it.
const replicaTimeout = 10 * time.Second

// Replication maintains replicas of this peer's records on its next successors, and copies of its
// predecessors' records here (design, section 4, invariant 2). Owners write through [Shipped]: a
// write is acknowledged when the local disk and all followers in sync have it.
type Replication struct {
	self  peer.ID
	net   rpc.Caller
	store *storage.Store
	log   *slog.Logger
	// followers returns the current followers, which hold the replicas.
	followers func() []peer.ID
	// dead reports whether a peer has left the ring.
	dead func(id peer.ID) bool
	// deposes reports whether this peer serves the arc of another, whose records are then rejected.
	deposes func(source peer.ID) bool
	// near reports whether a peer is in the leaf set, or was recently: only then may it begin a copy
	// here.
	near func(source peer.ID) bool
	// suspect makes the ring check a peer that did not answer.
	suspect func(id peer.ID)

	keeps   bool         // there are replicas: handed-off records are retained until shown
	on      atomic.Bool  // there were followers
	plain   atomic.Int64 // batches under way that are not recorded, as there was no follower
	leaving atomic.Bool  // no more replicas
	// recovering is set while records of this peer are only at its replicas: it ships nothing then.
	recovering atomic.Bool
	look       atomic.Bool // followers may have changed

	mu      sync.Mutex // guards what follows; never held during disk or network access
	source  *replica.Source
	waiters []waiter // by entry, ascending
	deposed map[peer.ID]bool
	names   []peer.ID // the present followers
	moves   int       // under way

	wake   chan struct{}
	ended  chan struct{}
	copies *replica.Copies
	loop   *loop.Serial
}

// waiter is a batch that waits for its followers.
type waiter struct {
	seq  uint64
	done chan struct{}
}

// ReplicationDeps are the dependencies of a Replication.
type ReplicationDeps struct {
	// Watch determines the followers; Replicas is the number of copies, including the original.
	Watch    *Watch
	Replicas int
	// Incarnation counts the starts of the peer.
	Incarnation uint64
	// Net sends messages, and Store has the local records, and the copies of others.
	Net   rpc.Caller
	Store *storage.Store
	// Suspect makes the ring check a peer that did not answer.
	Suspect func(id peer.ID)
	// Recovering reports that the database was replaced: records of this peer are only at its
	// replicas.
	Recovering bool
	// Log logs failures.
	Log *slog.Logger
}

// NewReplication returns a Replication that is not running yet.
func NewReplication(d ReplicationDeps) *Replication {
	r := replicationOf(d.Watch.self, d.Net, d.Store, replica.Config{Incarnation: d.Incarnation}, d.Log)
	r.watch(d.Watch, d.Replicas)
	r.suspect = d.Suspect
	r.recovering.Store(d.Recovering)
	return r
}

// watch sets the source of the followers, and the number of copies including the original.
func (r *Replication) watch(w *Watch, replicas int) {
	r.keeps = replicas > 1
	r.followers = func() []peer.ID { return w.successors(replicas - 1) }
	r.dead = func(id peer.ID) bool { return !w.Knows(id) }
	r.near = func(source peer.ID) bool {
		_, left := w.LeftAgo(source)
		return left || w.Knows(source) || w.Departs(source)
	}
	r.deposes = func(source peer.ID) bool { return w.dht.Serves(ring.PeerKey([]byte(source))) && !w.Departs(source) }
}

// replicationOf returns the Replication of a store, without a view of the ring.
func replicationOf(self peer.ID, net rpc.Caller, store *storage.Store, cfg replica.Config, log *slog.Logger) *Replication {
	return &Replication{
		self: self, net: net, store: store, log: log, deposed: make(map[peer.ID]bool), source: replica.NewSource(cfg),
		copies: replica.NewCopies(store.Keyspace(storage.KeyspaceCopies)), loop: loop.NewSerial(),
		wake: make(chan struct{}, 1), ended: make(chan struct{}), suspect: func(peer.ID) {}, near: func(peer.ID) bool { return true },
	}
}

// Nudge starts a check of the followers and their state.
func (r *Replication) Nudge() {
	r.look.Store(true)
	loop.Wake(r.wake)
}

// Serve answers sources until ctx ends.
func (r *Replication) Serve(ctx context.Context) error {
	names, err := r.copies.Sources()
	for _, name := range names {
		if err == nil && handoff.IsKept(peer.ID(name)) { // its age is unknown after a restart
			err = r.copies.Forget(name)
		}
	}
	if err != nil {
		return err
	}
	return r.loop.Run(ctx)
}

// Run keeps the followers in sync until ctx ends. Batches that still wait then fail because the
// peer is stopping.
func (r *Replication) Run(ctx context.Context) error {
	defer close(r.ended)
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	r.look.Store(true)
	for {
		if r.look.Swap(false) {
			if err := r.follow(ctx); err != nil {
				return loop.UnlessCanceled(err)
			}
		}
		r.mu.Lock()
		out, scans, again := r.source.Next(time.Now())
		r.release()
		r.mu.Unlock()
		for _, call := range out {
			calls.Go(func() { r.call(ctx, call) })
		}
		for _, scan := range scans {
			calls.Go(func() { r.scan(ctx, scan) })
		}
		wait := time.Hour
		if !again.IsZero() {
			wait = max(0, time.Until(again))
		}
		timer.Reset(wait)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// follow sets the source's followers. Before the first one, it waits for batches that were begun
// without being recorded.
func (r *Replication) follow(ctx context.Context) error {
	var ids []peer.ID
	if !r.leaving.Load() && !r.recovering.Load() {
		ids = r.followers()
	}
	r.mu.Lock()
	same := slices.Equal(ids, r.names)
	settled := same && r.source.Followers() == len(ids) // otherwise some must drop their copies, and may die before
	r.mu.Unlock()
	if settled {
		return nil
	}
	if len(ids) > 0 && !r.on.Swap(true) {
		for r.plain.Load() > 0 {
			if err := loop.Sleep(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = string(id)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.names = ids
	r.source.Follow(names, func(name string) bool { return r.dead(peer.ID(name)) })
	for id := range r.deposed {
		if !slices.Contains(ids, id) {
			delete(r.deposed, id)
		}
	}
	if !same {
		r.log.Debug("replicas", "peers", ids)
	}
	return nil
}

// release completes the batches that all followers in sync have; called with the lock held.
func (r *Replication) release() {
	if len(r.deposed) > 0 {
		return // another peer serves our arc: nothing is acknowledged until the conflict is resolved
	}
	durable := r.source.Durable()
	n := 0
	for n < len(r.waiters) && r.waiters[n].seq <= durable {
		close(r.waiters[n].done)
		n++
	}
	r.waiters = slices.Delete(r.waiters, 0, n)
}

func (r *Replication) call(ctx context.Context, call replica.Call) {
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	to := peer.ID(call.To)
	reply, err := r.net.Call(ctx, to, ServiceReplica, call.Message)
	if err != nil {
		r.log.Debug("replica did not accept a message", "peer", to, "err", err)
		if errors.Is(err, context.DeadlineExceeded) { // the ring detects an unreachable one itself
			r.suspect(to)
		}
	}
	r.mu.Lock()
	switch {
	case err == nil:
		delete(r.deposed, to)
	case calls.CodeOf(err) == calls.CodeMoved && slices.Contains(r.names, to): // a replaced follower sends nothing more
		r.deposed[to] = true
	}
	r.source.Result(time.Now(), call.ID, reply, err)
	r.mu.Unlock()
	r.Nudge() // a follower that should drop its copy and does not answer may be dead
}

// scan reads records for range sync, concurrently with the owners.
func (r *Replication) scan(ctx context.Context, scan replica.Scan) {
	r.mu.Lock()
	records := r.source.Collect(scan)
	r.mu.Unlock()
	err := Hand(scan.Lo, records, func(prefix byte) kv.Store { return r.store.Keyspace(prefix) })
	r.mu.Lock()
	call, ok := r.source.Scanned(time.Now(), records, err)
	r.mu.Unlock()
	if err != nil {
		r.log.Warn("failed to read records for a replica", "err", err)
	}
	if ok {
		r.call(ctx, call)
	} else {
		r.Nudge()
	}
}

// append records an applied batch; the returned wait ends when it is on the disks of all followers
// in sync.
func (r *Replication) append(ops []replica.Op) (wait func() error) {
	r.mu.Lock()
	r.source.Append(ops)
	w := r.waiting()
	r.mu.Unlock()
	if w.done != nil {
		loop.Wake(r.wake)
	}
	return func() error { return r.await(context.Background(), w) }
}

// await returns when all followers in sync have a batch.
func (r *Replication) await(ctx context.Context, w waiter) error {
	if w.done == nil {
		return nil
	}
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-r.ended:
	}
	select {
	case <-w.done: // completed before the end
		return nil
	default:
		return loop.ErrStopping
	}
}

// mark appends an empty batch, which is acknowledged like any other. It makes replicas confirm that
// they still have their copy when there is nothing new to be written: one may have dropped it, as
// it presumed this peer dead.
func (r *Replication) mark() waiter {
	r.mu.Lock()
	r.source.Append(nil)
	w := r.waiting()
	r.mu.Unlock()
	if w.done != nil {
		loop.Wake(r.wake)
	}
	return w
}

// hurried sends entries at once until done is called: record movements wait for one acknowledgment
// after another.
func (r *Replication) hurried() (done func()) {
	r.hurry(1)
	loop.Wake(r.wake)
	return func() { r.hurry(-1) }
}

func (r *Replication) hurry(more int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moves += more
	r.source.Hurry(r.moves > 0)
}

// waiting returns a waiter for all appended batches; one without done if there is nothing to wait
// for. Called with the lock held.
func (r *Replication) waiting() (w waiter) {
	w.seq = r.source.Seq()
	if len(r.deposed) > 0 || r.source.Durable() < w.seq {
		w.done = make(chan struct{})
		r.waiters = append(r.waiters, w)
	}
	return w
}

// errDeposed is the answer to a source whose arc is served here.
var errDeposed = &calls.Error{Code: calls.CodeMoved, Message: "another peer serves your arc"}

// Service handles messages of sources to their followers.
func (r *Replication) Service() rpc.Service {
	return rpc.Raw("Replica", rpc.Members("that the sender is a ring neighbor, or has a copy here already; that this peer does not serve its arc itself"), r.Handle)
}

// errFar is the answer to a source that is not near in this peer's view; it may be in a moment.
var errFar = rpc.Busy("caller is not a neighbor in this peer's view")

// Handle processes a message of a source.
func (r *Replication) Handle(ctx context.Context, from peer.ID, raw []byte) ([]byte, error) {
	if r.deposes(from) {
		return nil, errDeposed
	}
	var reply []byte
	var wait func() error
	var err error
	near := r.near(from)
	if lerr := r.loop.Do(ctx, func() {
		if near = near || r.copies.Holds(string(from)); near {
			reply, wait, err = r.copies.Handle(string(from), raw)
		}
	}); lerr != nil {
		return nil, lerr
	}
	switch {
	case !near:
		return nil, errFar
	case err != nil:
		return nil, rpc.Refuse("%v", err)
	}
	if err := wait(); err != nil {
		return nil, err
	}
	if r.deposes(from) {
		return nil, errDeposed // rejected now: the write may have missed the walk over the copy that was taken over
	}
	return reply, nil
}

// drop deletes an obsolete part of a source's copy.
func (r *Replication) drop(ctx context.Context, source peer.ID, lo, hi []byte) error {
	var err error
	if lerr := r.loop.Do(ctx, func() {
		if _, err = r.copies.Drop(string(source), lo, hi); err == nil && handoff.IsKept(source) {
			err = r.forgetEmpty(source)
		}
	}); lerr != nil {
		return lerr
	}
	return err
}

// forgetEmpty deletes the name of an empty copy. On the loop.
func (r *Replication) forgetEmpty(source peer.ID) error {
	some := false
	err := r.copies.Scan(string(source), nil, nil, func(_, _ []byte) bool { some = true; return false })
	if err != nil || some {
		return err
	}
	return r.copies.Forget(string(source))
}

// keep retains records that were handed to a peer.
func (r *Replication) keep(ctx context.Context, to peer.ID, prefix byte, records []kv.Record) error {
	var err error
	if lerr := r.loop.Do(ctx, func() {
		err = r.copies.Keep(string(handoff.Kept(to)), func(set func(key, value []byte)) {
			for _, rec := range records {
				set(append([]byte{prefix}, rec.Key...), rec.Value)
			}
		})
	}); lerr != nil {
		return lerr
	}
	return err
}

// dismiss makes the followers of a peer that leaves for good drop their copies, and waits until
// they have, or ctx ends.
func (r *Replication) dismiss(ctx context.Context) error {
	r.leaving.Store(true)
	for {
		r.Nudge()
		r.mu.Lock()
		left := r.source.Followers()
		r.mu.Unlock()
		if left == 0 {
			return nil
		}
		if err := loop.Sleep(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("%d replicas still have copies: %w", left, err)
		}
	}
}

// Level returns how many of the current followers are in sync, and how many there are.
func (r *Replication) Level() (level, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Level()
}

// Shipped is a keyspace whose batches go to the replicas as well. Each has one writing goroutine.
type Shipped struct {
	*storage.Keyspace
	Replicated // keys without the head are local to this peer

	ship *Replication
	// write applies a batch to the keyspace.
	write func(fn func(kv.Batch)) (wait func() error, err error)
}

var _ kv.Store = Shipped{}

// Space returns a keyspace whose batches are synced and shipped.
func (r *Replication) Space(prefix byte) Shipped {
	space := r.store.Keyspace(prefix)
	return Shipped{space, ReplicatedOf(prefix), r, space.Update}
}

// LazySpace returns a keyspace whose batches are shipped, and synced when a caller waits for them:
// for records whose loss costs little.
func (r *Replication) LazySpace(prefix byte) Shipped {
	s := r.Space(prefix)
	s.write = s.UpdateLazily
	return s
}

// Update implements kv.Store: wait returns when the batch is on the disks of this peer and of all
// replicas in sync.
func (s Shipped) Update(fn func(kv.Batch)) (wait func() error, err error) {
	if !s.ship.on.Load() {
		s.ship.plain.Add(1)
		if !s.ship.on.Load() {
			defer s.ship.plain.Add(-1)
			return s.write(fn)
		}
		s.ship.plain.Add(-1)
	}
	note := Noting{Space: &s.Replicated}
	local, err := s.write(func(b kv.Batch) {
		note.Batch = b
		fn(&note)
	})
	if err != nil || len(note.Ops) == 0 {
		return local, err
	}
	replicas := s.ship.append(note.Ops)
	return func() error {
		if err := local(); err != nil {
			return err // return a failure at once, as the replicas may never answer
		}
		return replicas()
	}, nil
}
