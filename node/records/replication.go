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
	"github.com/apoidea/apoidea/node/custody"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
	"github.com/apoidea/apoidea/storage/replica"
)

// ServiceReplica takes the messages with which a peer keeps its copies level.
const ServiceReplica = "replica"

// replicaTimeout bounds one message: the follower answers when its disk has it.
const replicaTimeout = 10 * time.Second

// Replication keeps copies of this peer's records on its next successors, and copies of its
// predecessors' records here (design, section 4, invariant 2). What the owners write goes through
// [Shipped]: an answer leaves when the local disk and all level followers have it.
type Replication struct {
	self  peer.ID
	net   rpc.Caller
	store *storage.Store
	log   *slog.Logger
	// followers are the peers that are to keep copies, at present.
	followers func() []peer.ID
	// dead says that a peer is not part of the ring any more.
	dead func(id peer.ID) bool
	// deposes says whether this peer serves the arc of another: then that one's records are not
	// taken.
	deposes func(source peer.ID) bool
	// near says that a peer is in the leaf set, or was until lately: it may begin a copy here.
	near func(source peer.ID) bool
	// suspect has the ring ask a peer that did not answer.
	suspect func(id peer.ID)

	keeps   bool         // others have copies, and show them
	on      atomic.Bool  // there were followers
	plain   atomic.Int64 // batches under way that are not noted, as there were none
	leaving atomic.Bool  // nobody is to keep copies any more
	look    atomic.Bool  // who follows may have changed

	mu      sync.Mutex // guards what follows; never held over disk or network
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

// ReplicationDeps are what replication uses of the peer.
type ReplicationDeps struct {
	// Watch says where the copies are to be; Replicas is how many there are, with the original.
	Watch    *Watch
	Replicas int
	// Incarnation counts the starts of the peer.
	Incarnation uint64
	// Net carries messages, and Store has what is copied, and the copies of others.
	Net   rpc.Caller
	Store *storage.Store
	// Suspect has the ring ask a peer that did not answer.
	Suspect func(id peer.ID)
	// Log is told what goes wrong.
	Log *slog.Logger
}

// NewReplication returns a replication that is yet to run.
func NewReplication(d ReplicationDeps) *Replication {
	r := replicationOf(d.Watch.self, d.Net, d.Store, replica.Config{Incarnation: d.Incarnation}, d.Log)
	r.watch(d.Watch, d.Replicas)
	r.suspect = d.Suspect
	return r
}

// watch has the ring say where the copies are to be, of which there are so many with the original.
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

// replicationOf returns the replication of a store, which is yet to be told of the ring.
func replicationOf(self peer.ID, net rpc.Caller, store *storage.Store, cfg replica.Config, log *slog.Logger) *Replication {
	return &Replication{
		self: self, net: net, store: store, log: log, deposed: make(map[peer.ID]bool), source: replica.NewSource(cfg),
		copies: replica.NewCopies(store.Keyspace(storage.KeyspaceCopies)), loop: loop.NewSerial(),
		wake: make(chan struct{}, 1), ended: make(chan struct{}), suspect: func(peer.ID) {}, near: func(peer.ID) bool { return true },
	}
}

// Nudge has the followers looked at: who they are, and what they need.
func (r *Replication) Nudge() {
	r.look.Store(true)
	loop.Wake(r.wake)
}

// Serve answers sources until ctx ends.
func (r *Replication) Serve(ctx context.Context) error {
	names, err := r.copies.Sources()
	for _, name := range names {
		if err == nil && custody.IsKept(peer.ID(name)) { // how long it was kept is not known any more
			err = r.copies.Forget(name)
		}
	}
	if err != nil {
		return err
	}
	return r.loop.Run(ctx)
}

// Run keeps the followers level until ctx ends. Batches that still wait then are told that the peer
// is stopping.
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

// follow tells the source who follows. Before the first one does, batches that were begun without
// being noted end.
func (r *Replication) follow(ctx context.Context) error {
	var ids []peer.ID
	if !r.leaving.Load() {
		ids = r.followers()
	}
	r.mu.Lock()
	same := slices.Equal(ids, r.names)
	settled := same && r.source.Followers() == len(ids) // else some are to be told to forget, and may die before they are
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

// release lets go the batches that all level followers have; called with the lock held.
func (r *Replication) release() {
	if len(r.deposed) > 0 {
		return // another peer has taken our arc over: nothing is acknowledged until we agree on who serves it
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
		r.log.Debug("replica did not take a message", "peer", to, "err", err)
		if errors.Is(err, context.DeadlineExceeded) { // of one that cannot be reached the ring hears by itself
			r.suspect(to)
		}
	}
	r.mu.Lock()
	switch {
	case err == nil:
		delete(r.deposed, to)
	case calls.CodeOf(err) == calls.CodeMoved && slices.Contains(r.names, to): // of one that was replaced nothing more would be heard
		r.deposed[to] = true
	}
	r.source.Result(time.Now(), call.ID, reply, err)
	r.mu.Unlock()
	r.Nudge() // one that is to forget its copy and does not answer may be dead
}

// scan reads records for range sync beside the owners.
func (r *Replication) scan(ctx context.Context, scan replica.Scan) {
	r.mu.Lock()
	records := r.source.Collect(scan)
	r.mu.Unlock()
	err := Hand(scan.Lo, records, func(prefix byte) kv.Store { return r.store.Keyspace(prefix) })
	r.mu.Lock()
	call, ok := r.source.Scanned(time.Now(), records, err)
	r.mu.Unlock()
	if err != nil {
		r.log.Warn("records not read for a replica", "err", err)
	}
	if ok {
		r.call(ctx, call)
	} else {
		r.Nudge()
	}
}

// append notes a batch that was applied; the returned wait ends when it is on the disks of all
// level followers.
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

// await returns when all level followers have a batch.
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
	case <-w.done: // it was let go before the end
		return nil
	default:
		return loop.ErrStopping
	}
}

// mark notes an empty batch, which is acknowledged like any other. So a replica is asked for its
// word also when there is nothing new to be written: it may have dropped its copy since it last
// gave it, as it believed that this peer was dead.
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

// hurried has entries go out at once until done is called: whoever moves records waits for one
// acknowledgement after another.
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

// waiting has a waiter stand for all that was appended; one without done if nothing is to be waited
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

// Service takes what sources send their followers.
func (r *Replication) Service() rpc.Service {
	return rpc.Raw("Replica", rpc.Members("that the sender stands near on the ring, or has a copy here already; that this peer does not serve its arc itself"), r.Handle)
}

// errFar is the answer to a source that is not seen near: it may come there in a moment.
var errFar = rpc.Busy("copies begin near their source, and this peer does not see the caller there")

// Handle takes a message of a source.
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
		return nil, errDeposed // by now: what was just written may have missed the walk over the copy that we took over
	}
	return reply, nil
}

// drop removes a part of a source's copy that is not needed any more.
func (r *Replication) drop(ctx context.Context, source peer.ID, lo, hi []byte) error {
	var err error
	if lerr := r.loop.Do(ctx, func() {
		if _, err = r.copies.Drop(string(source), lo, hi); err == nil && custody.IsKept(source) {
			err = r.forgetEmpty(source)
		}
	}); lerr != nil {
		return lerr
	}
	return err
}

// forgetEmpty forgets the name of a copy of which nothing is left. On the loop.
func (r *Replication) forgetEmpty(source peer.ID) error {
	some := false
	err := r.copies.Scan(string(source), nil, nil, func(_, _ []byte) bool { some = true; return false })
	if err != nil || some {
		return err
	}
	return r.copies.Forget(string(source))
}

// keep keeps records that were handed to a peer.
func (r *Replication) keep(ctx context.Context, to peer.ID, prefix byte, records []kv.Record) error {
	var err error
	if lerr := r.loop.Do(ctx, func() {
		err = r.copies.Keep(string(custody.Kept(to)), func(set func(key, value []byte)) {
			for _, rec := range records {
				set(append([]byte{prefix}, rec.Key...), rec.Value)
			}
		})
	}); lerr != nil {
		return lerr
	}
	return err
}

// dismiss tells the followers of a peer that leaves for good to forget their copies, and waits
// until they have, or ctx ends.
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
			return fmt.Errorf("%d replicas keep copies: %w", left, err)
		}
	}
}

// Level says how many of the present followers have everything, and how many there are.
func (r *Replication) Level() (level, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.source.Level()
}

// Shipped is a keyspace whose batches go to the replicas as well. For each there is one goroutine
// that writes.
type Shipped struct {
	*storage.Keyspace
	Replicated // of which the keys without the head are this peer's own affair

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

// LazySpace returns a keyspace whose batches are shipped, and synced when somebody waits for them:
// for records that may be lost at a small price.
func (r *Replication) LazySpace(prefix byte) Shipped {
	s := r.Space(prefix)
	s.write = s.UpdateLazily
	return s
}

// Update implements kv.Store: wait returns when the batch is on the disks of this peer and of all
// level replicas.
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
			return err // the replicas may never answer, and what failed is to be known at once
		}
		return replicas()
	}, nil
}
