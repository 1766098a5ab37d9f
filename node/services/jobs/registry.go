// Package jobs implements the job services of a peer: [Service] stores the jobs whose keys this
// peer owns and sends their seeds, [Registry] holds all jobs that the peer works for, and [Poster]
// accepts jobs from users.
//
// Invariants:
//   - a job survives its owner: each peer that works for it stores its spec, and sends it with its
//     state to the next owner (TestJobSurvivesItsOwner); a canceled job stays canceled
//     (TestCanceledStaysCanceled);
//   - seeds count as outstanding until they are on disk at the owners of their hosts (TestSeeds);
//   - the jobs in memory are bounded (TestJobsAreBounded), as are finished jobs on disk
//     (TestJobsOnDiskAreBounded); unfinished jobs are loaded on demand, and seeds are on disk alone
//     (TestSeedsAreOnDisk).
//
// All three are safe for concurrent use.
package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/loop"
	"github.com/apoidea/apoidea/node/services/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// maxKnown bounds the specs in memory. A job beyond it is requested again when one of its URLs
// arrives.
const maxKnown = 1024

// wantedAtOnce bounds the unknown jobs requested in a row: jobs that do not exist, or whose owner
// does not answer, must not delay the refresh of the others.
const wantedAtOnce = 16

// wantedFor is the time for which an unknown job is requested before it counts as nonexistent. A
// real one is requested again with its URLs.
const wantedFor = time.Minute

// metAtOnce bounds the remembered unknown jobs, in 4 bytes each, that exceed the request queue:
// 100,000 invented ones in a second overwrite half of the entries.
const metAtOnce = 1 << 17

// errUnknown is returned for jobs unknown to this peer and to the job's owner.
var errUnknown = errors.New("unknown job")

// RegistryDeps are the dependencies of a Registry.
type RegistryDeps struct {
	// Owners calls the owners of jobs.
	Owners rpc.Owners
	// Keep stores specs, under [KeyPrefix].
	Keep *storage.Keyspace
	// Changed is called for a new job or a new state, possibly concurrently.
	Changed func(spec *job.Spec, state job.State)
	Key     job.Key      // signs jobs posted here, and their changes
	Own     job.Key      // the peer's identity, which signs changes of jobs it posted before
	Whose   Whose        // selects the accepted jobs
	Log     *slog.Logger // reports unavailable jobs
}

// Registry holds the jobs that this peer works for: immutable specs, and states as of the last
// refresh. Specs are stored on disk too, so that a crawl continues when the job's owner is gone:
// the peer posts them again to the next owner.
type Registry struct {
	deps RegistryDeps

	mu    sync.RWMutex // guards known, wanted, met and turned
	known map[job.ID]*known
	// wanted holds the unknown jobs to be requested.
	wanted map[job.ID]request
	// met holds truncated hashes of unknown jobs that did not fit into wanted.
	met  []uint32
	seed maphash.Seed
	// turned holds the rejected jobs, as far as their owners sent their posters.
	turned map[job.ID]turned
	kick   chan struct{}
}

// request is a request for an unknown job.
type request struct {
	since time.Time
	again bool // requested twice: it precedes jobs that may not exist
}

// turned is a rejected job.
type turned struct {
	err   error
	until time.Time // not requested before; its owner may have sent a false poster
}

type known struct {
	spec *job.Spec // without its seeds, which are on disk
	job.Standing

	at     ring.Key
	due    time.Time     // of the next refresh
	pause  time.Duration // interval after that
	failed bool          // the last refresh had no reply: others go first
}

func newKnown(spec *job.Spec, s job.Standing) *known {
	return &known{spec: spec.Bare(), Standing: s, at: ring.JobKey(spec.ID.String()), pause: refreshEvery}
}

// NewRegistry reads the specs on disk into memory up to its limit, unfinished jobs first.
func NewRegistry(d RegistryDeps) (*Registry, error) {
	b := &Registry{deps: d, known: make(map[job.ID]*known), wanted: make(map[job.ID]request), seed: maphash.MakeSeed(), turned: make(map[job.ID]turned), kick: make(chan struct{}, 1)}
	var bad error
	var over []job.ID
	err := d.Keep.Scan([]byte(KeyPrefix), kv.PrefixEnd([]byte(KeyPrefix)), func(_, value []byte) bool {
		var spec *job.Spec
		var s job.Standing
		if spec, s, bad = decode(value); bad != nil {
			return false
		}
		if b.turn(spec) != nil {
			return true
		}
		b.known[spec.ID] = newKnown(spec, s)
		if len(b.known) > maxKnown {
			over = append(over, b.evict()...)
		}
		return true
	})
	if err = errors.Join(err, bad); err == nil {
		err = d.Keep.UpdateNoSync(func(w kv.Batch) { drop(w, over) })
	}
	if err != nil {
		return nil, fmt.Errorf("known jobs: %w", err)
	}
	return b, nil
}

// Job returns the spec and state of a job from memory; an unknown job is requested in the
// background.
func (b *Registry) Job(id job.ID) (*job.Spec, job.Standing, bool) {
	if k, ok := b.look(id); ok {
		return k.spec, k.Standing, true
	}
	b.Want(id)
	return nil, job.Standing{}, false
}

// look returns the current entry of a job.
func (b *Registry) look(id job.ID) (k known, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if at := b.known[id]; at != nil {
		return *at, true
	}
	return k, false
}

// Want requests an unknown job in the background.
func (b *Registry) Want(id job.ID) {
	b.mu.Lock()
	if b.turnedAway(id) == nil {
		b.want(id)
	}
	b.mu.Unlock()
	loop.Wake(b.kick)
}

// want queues a request for a job. Untrusted peers may invent IDs, each of which appears once: if
// the queue is full, an ID that appears again replaces another. Called with the lock held.
func (b *Registry) want(id job.ID) {
	w, again := b.wanted[id]
	if !again {
		w.since = time.Now()
		if len(b.wanted) >= maxKnown {
			if again = b.meet(id); !again {
				return
			}
			for other := range b.wanted {
				delete(b.wanted, other)
				break
			}
		}
	}
	w.again = w.again || again
	b.wanted[id] = w
}

// meet remembers a job for a while, and reports whether it was remembered before.
func (b *Registry) meet(id job.ID) bool {
	if b.met == nil {
		b.met = make([]uint32, metAtOnce)
	}
	h := maphash.Bytes(b.seed, id[:])
	at, rest := &b.met[h%metAtOnce], uint32(h>>32)
	old := *at
	*at = rest
	return old == rest
}

// turnedAway returns the reason why a job must not be requested at present; nil if it may be.
// Called with the lock held.
func (b *Registry) turnedAway(id job.ID) error {
	if t := b.turned[id]; time.Now().Before(t.until) {
		return t.err
	}
	return nil
}

// turn rejects a job that this peer does not accept, and logs it once. Called with the lock held,
// or before the registry is shared.
func (b *Registry) turn(spec *job.Spec) error {
	err := b.deps.Whose.Takes(spec)
	if err == nil {
		return nil
	}
	delete(b.wanted, spec.ID)
	if b.turned[spec.ID].err == nil {
		if len(b.turned) >= maxKnown {
			clear(b.turned)
		}
		b.deps.Log.Warn("job not accepted", "err", err)
	}
	b.turned[spec.ID] = turned{err, time.Now().Add(finishedRefresh)}
	return err
}

// Spec returns the spec of a job, which it requests from the owner if unknown.
func (b *Registry) Spec(ctx context.Context, id job.ID) (*job.Spec, error) {
	if spec, _, ok := b.Job(id); ok {
		return spec, nil
	}
	b.mu.RLock()
	err := b.turnedAway(id)
	b.mu.RUnlock()
	if err == nil {
		err = b.find(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	if spec, _, ok := b.Job(id); ok {
		return spec, nil
	}
	return nil, errUnknown
}

// find loads an unknown job into the registry: from disk, if it did not fit into memory, or from
// its owner.
func (b *Registry) find(ctx context.Context, id job.ID) error {
	spec, s, err := b.kept(id)
	if errors.Is(err, errUnknown) {
		_, err = b.get(ctx, id)
		return err
	}
	if err != nil {
		return err
	}
	return b.learn(spec, s)
}

// kept reads a job from disk, with its seeds.
func (b *Registry) kept(id job.ID) (*job.Spec, job.Standing, error) {
	value, ok, err := b.deps.Keep.Get(keyOf(id))
	if err == nil && !ok {
		err = errUnknown
	}
	if err != nil {
		return nil, job.Standing{}, fmt.Errorf("job %s: %w", id, err)
	}
	spec, s, err := decode(value)
	if err != nil {
		return nil, s, fmt.Errorf("job %s: %w", id, err)
	}
	return spec, s, nil
}

// Draw requests a part of the budget from a job's owner.
func (b *Registry) Draw(ctx context.Context, id job.ID, d *wire.Draw) (*wire.JobReply, error) {
	return b.ask(ctx, id, &wire.JobRequest{Draw: d})
}

// all returns the known jobs.
func (b *Registry) all() []known {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]known, 0, len(b.known))
	for _, k := range b.known {
		out = append(out, *k)
	}
	return out
}

// Run refreshes the jobs until ctx ends.
func (b *Registry) Run(ctx context.Context) error {
	for _, k := range b.all() {
		b.deps.Changed(k.spec, k.State)
	}
	var wanting sync.WaitGroup
	defer wanting.Wait()
	wanting.Go(func() { b.runWanted(ctx) }) // nonexistent jobs must not delay the others
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			b.refresh(ctx, now)
		case <-ctx.Done():
			return nil
		}
	}
}

func (b *Registry) runWanted(ctx context.Context) {
	tick := time.NewTicker(refreshEvery)
	defer tick.Stop()
	for {
		select {
		case <-b.kick:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		b.fetchWanted(ctx)
	}
}

func (b *Registry) fetchWanted(ctx context.Context) {
	b.mu.RLock()
	var ids, once []job.ID
	for id, w := range b.wanted { // in random order, so each has its turn
		if w.again {
			ids = append(ids, id)
		} else {
			once = append(once, id)
		}
	}
	b.mu.RUnlock()
	ids = append(ids, once...)
	for _, id := range ids[:min(len(ids), wantedAtOnce)] {
		if err := b.find(ctx, id); err != nil && ctx.Err() == nil {
			b.deps.Log.Debug("job unknown", "job", id.String(), "err", err)
			b.giveUp(id)
		}
	}
}

// giveUp drops a job that was not found for long.
func (b *Registry) giveUp(id job.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.wanted[id]; ok && time.Since(w.since) >= wantedFor {
		delete(b.wanted, id)
	}
}

// ask sends a request to the owner of a job.
func (b *Registry) ask(ctx context.Context, id job.ID, req *wire.JobRequest) (*wire.JobReply, error) {
	req.Id = id[:]
	reply, err := jobMethod.CallOwner(ctx, b.deps.Owners, ring.JobKey(id.String()), req)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	if reply.GetError() != "" {
		return nil, fmt.Errorf("%w: %s", errUnknown, reply.GetError())
	}
	return reply, nil
}

// one sends a request with the job's record as its reply, and stores the record.
func (b *Registry) one(ctx context.Context, id job.ID, req *wire.JobRequest) (*wire.Job, error) {
	reply, err := b.ask(ctx, id, req)
	if err != nil {
		return nil, err
	}
	if len(reply.GetJobs()) != 1 {
		return nil, fmt.Errorf("job %s: reply with %d records", id, len(reply.GetJobs()))
	}
	rec := reply.GetJobs()[0]
	return rec, b.store(id, rec)
}

func (b *Registry) get(ctx context.Context, id job.ID) (*wire.Job, error) {
	return b.one(ctx, id, &wire.JobRequest{Get: true})
}

func (b *Registry) post(ctx context.Context, spec *job.Spec) (*wire.Job, error) {
	return b.one(ctx, spec.ID, &wire.JobRequest{Post: spec.Wire()})
}

// statesTried bounds the tries to sign a change after a concurrent one.
const statesTried = 3

// setState changes the state of a job at its owner. A signed job needs the poster's key.
func (b *Registry) setState(ctx context.Context, id job.ID, state job.State) (*wire.Job, error) {
	return b.change(ctx, id, func(s *job.Standing) { s.State = state })
}

// change changes the standing of a job at its owner. A signed job needs the poster's key.
func (b *Registry) change(ctx context.Context, id job.ID, to func(*job.Standing)) (rec *wire.Job, err error) {
	for range statesTried {
		if rec, err = b.get(ctx, id); err != nil {
			return nil, err
		}
		now := standingOf(rec)
		if k, ok := b.look(id); ok { // the owner may be outdated
			now = now.Merge(k.Standing)
		}
		want := now
		if to(&want); want != now {
			want.Version++
		}
		if want, err = b.sign(id, rec.GetSpec(), want); err != nil {
			return nil, err
		}
		req := &wire.JobRequest{SetState: uint32(want.State), Version: want.Version, Refresh: uint64(want.Refresh), StateSignature: []byte(want.Signature)}
		if rec, err = b.one(ctx, id, req); err != nil || job.State(rec.GetState()) == want.State && job.Refresh(rec.GetRefresh()) == want.Refresh {
			break
		}
	}
	return rec, err
}

// sign signs a new standing of a job, if the job is signed.
func (b *Registry) sign(id job.ID, spec *wire.JobSpec, s job.Standing) (job.Standing, error) {
	if len(spec.GetSignature()) == 0 {
		return s, nil
	}
	key := b.deps.Key
	if bytes.Equal(spec.GetPoster(), b.deps.Own.ID()) {
		key = b.deps.Own
	}
	if !bytes.Equal(spec.GetPoster(), key.ID()) {
		return s, &foreignError{id, peer.ID(spec.GetPoster()), peer.ID(b.deps.Key.ID())}
	}
	return key.SignState(id, s), nil
}

// foreignError is returned for a job of another key than this peer's.
type foreignError struct {
	id           job.ID
	poster, mine peer.ID
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("job %s: only its poster's key %s can change it, and this peer has key %s: use the peer that posted it, or --job-key FILE with that key", e.id, e.poster, e.mine)
}

// store stores a record in the registry.
func (b *Registry) store(id job.ID, rec *wire.Job) error {
	spec, err := job.FromWire(rec.GetSpec())
	if err != nil {
		return err
	}
	if spec.ID != id {
		return fmt.Errorf("job %s: its owner returned another job", id)
	}
	mine, _, err := b.kept(id)
	if err == nil && !(bytes.Equal(mine.Poster, spec.Poster) && bytes.Equal(mine.Signature, spec.Signature)) {
		return fmt.Errorf("job %s: its owner returned a job of another poster: %w", id, job.ErrConflict)
	}
	return b.learn(spec, standingOf(rec))
}

// learn merges a received state of a job into the registry, as far as it is authenticated, and
// stores it on disk. The spec must include its seeds.
func (b *Registry) learn(spec *job.Spec, heard job.Standing) error {
	if err := heard.Validate(); err != nil {
		return fmt.Errorf("job %s: %w", spec.ID, err)
	}
	heard, err := spec.Vouched(heard)
	if err != nil {
		return err
	}
	var over []job.ID
	b.mu.Lock()
	if err := b.turn(spec); err != nil {
		b.mu.Unlock()
		return err
	}
	delete(b.wanted, spec.ID)
	k := b.known[spec.ID]
	switch {
	case k == nil:
		if len(b.known) >= maxKnown {
			over = b.evict()
		}
		k = newKnown(spec, heard)
		b.known[spec.ID] = k
	case k.Merge(heard) == k.Standing:
		b.mu.Unlock()
		return nil
	default:
		k.Standing, k.pause = k.Merge(heard), refreshEvery
	}
	kept := *k
	b.mu.Unlock()
	raw, err := proto.Marshal(recordOf(spec, kept.Standing))
	if err != nil {
		return fmt.Errorf("storing job %s: %w", spec.ID, err)
	}
	err = b.deps.Keep.UpdateNoSync(func(w kv.Batch) {
		w.Set(keyOf(spec.ID), raw)
		drop(w, over)
	})
	b.deps.Changed(kept.spec, kept.State)
	return err
}

// evict removes a job from memory to add another, and returns jobs to be deleted from disk: a
// finished one, if any. Others are loaded on demand. Called with the lock held.
func (b *Registry) evict() (over []job.ID) {
	for id, k := range b.known {
		if k.State == job.StateCanceled || k.State == job.StateDone {
			delete(b.known, id)
			return []job.ID{id}
		}
	}
	for id := range b.known {
		delete(b.known, id)
		break
	}
	return nil
}

// drop deletes the records of jobs.
func drop(w kv.Batch, ids []job.ID) {
	for _, id := range ids {
		w.Delete(keyOf(id))
	}
}
