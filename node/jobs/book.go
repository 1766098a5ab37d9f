// Package jobs is what a peer knows of jobs and does for them: [Service] keeps those whose keys
// this peer owns and hands out their seeds, [Book] is what it knows of all that it works for, and
// [Poster] takes them from people.
//
// What it promises:
//   - a job outlives its owner: whoever works for it keeps its spec on disk, and tells the next
//     owner of it and of its state (TestJobSurvivesItsOwner); one that was cancelled stays so
//     (TestCanceledStaysCanceled);
//   - seeds count as outstanding until they are on disk at the owners of their hosts (TestSeeds);
//   - what is known in memory is bounded (TestJobsAreBounded), and what is finished on disk as well
//     (TestJobsOnDiskAreBounded); an unfinished job is read back when it is wanted, and seeds are
//     on disk alone (TestSeedsAreOnDisk).
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
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/storage"
	"github.com/apoidea/apoidea/storage/kv"
)

// maxKnown bounds the specs in memory. A job beyond it is asked for again when one of its URLs
// comes along.
const maxKnown = 1024

// wantedAtOnce bounds the unknown jobs that are asked for in a row: those that nobody knows, or
// whose owner does not answer, must not hold up the refresh of the others for long.
const wantedAtOnce = 16

// wantedFor is how long an unknown job is asked for before it counts as made up. One that is not
// comes again with its URLs.
const wantedFor = time.Minute

// metAtOnce bounds the unknown jobs that are remembered, in 4 bytes each, while there is no room
// for more of them: of 100,000 that are made up in a second it overwrites half of what it had.
const metAtOnce = 1 << 17

// errUnknown answers for jobs that neither this peer nor the job's owner knows.
var errUnknown = errors.New("no such job")

// BookDeps are what the book uses of the peer.
type BookDeps struct {
	// Owners asks the owners of jobs.
	Owners rpc.Owners
	// Keep is where specs are kept, under [KeyPrefix].
	Keep *storage.Keyspace
	// Changed is told when a job was learnt or its state is another, by several goroutines at a
	// time.
	Changed func(spec *job.Spec, state job.State)
	Key     job.Key      // signs what is posted here, and changed of it
	Own     job.Key      // the peer's identity, which signs changes of what it posted before
	Whose   Whose        // says whose jobs are worked for
	Log     *slog.Logger // hears of jobs that cannot be had
}

// Book is what this peer knows of the jobs it works for: specs, which never change, and states as
// of the last refresh. It keeps specs on disk too, so that a crawl goes on when the job's owner is
// gone, and posts them anew to whoever owns the job then.
type Book struct {
	deps BookDeps

	mu    sync.RWMutex // guards known, wanted, met and turned
	known map[job.ID]*known
	// wanted are the jobs that somebody asked for and that are not known.
	wanted map[job.ID]wish
	// met has what is left of the hashes of those that found no room among them.
	met  []uint32
	seed maphash.Seed
	// turned are those that are not worked for, as far as their owners tell whose they are.
	turned map[job.ID]turned
	kick   chan struct{}
}

// wish is an unknown job that is asked for.
type wish struct {
	since time.Time
	again bool // it was asked for twice: it goes before those that are made up
}

// turned is a job that is not worked for.
type turned struct {
	err   error
	until time.Time // it is not asked for again; its owner may have lied
}

type known struct {
	spec *job.Spec // without its seeds, which are on disk
	job.Standing

	at     ring.Key
	due    time.Time     // of the next question
	pause  time.Duration // before the one after it
	failed bool          // the last question had no answer: others go first
}

func know(spec *job.Spec, s job.Standing) *known {
	return &known{spec: spec.Bare(), Standing: s, at: ring.JobKey(spec.ID.String()), pause: refreshEvery}
}

// NewBook reads the specs that are on disk, of unfinished jobs first as far as there is room.
func NewBook(d BookDeps) (*Book, error) {
	b := &Book{deps: d, known: make(map[job.ID]*known), wanted: make(map[job.ID]wish), seed: maphash.MakeSeed(), turned: make(map[job.ID]turned), kick: make(chan struct{}, 1)}
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
		b.known[spec.ID] = know(spec, s)
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

// Job returns the spec and state of a job, without asking anybody; unknown jobs are asked for in
// the background.
func (b *Book) Job(id job.ID) (*job.Spec, job.State, bool) {
	if k, ok := b.look(id); ok {
		return k.spec, k.State, true
	}
	b.Want(id)
	return nil, job.StateNone, false
}

// look returns what is known of a job at this moment.
func (b *Book) look(id job.ID) (k known, ok bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if at := b.known[id]; at != nil {
		return *at, true
	}
	return k, false
}

// Want has a job that is not known asked for in the background.
func (b *Book) Want(id job.ID) {
	b.mu.Lock()
	if b.turnedAway(id) == nil {
		b.want(id)
	}
	b.mu.Unlock()
	loop.Wake(b.kick)
}

// want notes a job that is to be asked for. Strangers make IDs up, each of which comes once: where
// they leave no room, one that comes again takes the place of any. Called with the lock held.
func (b *Book) want(id job.ID) {
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

// meet remembers a job for a while, and says whether it did already.
func (b *Book) meet(id job.ID) bool {
	if b.met == nil {
		b.met = make([]uint32, metAtOnce)
	}
	h := maphash.Bytes(b.seed, id[:])
	at, rest := &b.met[h%metAtOnce], uint32(h>>32)
	old := *at
	*at = rest
	return old == rest
}

// turnedAway says why a job is not to be asked for at present; nil: it may be. Called with the lock
// held.
func (b *Book) turnedAway(id job.ID) error {
	if t := b.turned[id]; time.Now().Before(t.until) {
		return t.err
	}
	return nil
}

// turn refuses a job that is not worked for, and says so once. Called with the lock held, or before
// others know the book.
func (b *Book) turn(spec *job.Spec) error {
	err := b.deps.Whose.Takes(spec)
	if err == nil {
		return nil
	}
	delete(b.wanted, spec.ID)
	if b.turned[spec.ID].err == nil {
		if len(b.turned) >= maxKnown {
			clear(b.turned)
		}
		b.deps.Log.Warn("a job is not worked for", "err", err)
	}
	b.turned[spec.ID] = turned{err, time.Now().Add(finishedRefresh)}
	return err
}

// Spec returns the spec of a job, asking its owner if it is not known.
func (b *Book) Spec(ctx context.Context, id job.ID) (*job.Spec, error) {
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

// find takes a job into the book that is not known: from disk, if memory had no room for it, or
// from its owner.
func (b *Book) find(ctx context.Context, id job.ID) error {
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
func (b *Book) kept(id job.ID) (*job.Spec, job.Standing, error) {
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

// Draw asks a job's owner for a part of its budget.
func (b *Book) Draw(ctx context.Context, id job.ID, d *wire.Draw) (*wire.JobReply, error) {
	return b.ask(ctx, id, &wire.JobRequest{Draw: d})
}

// all returns the known jobs.
func (b *Book) all() []known {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]known, 0, len(b.known))
	for _, k := range b.known {
		out = append(out, *k)
	}
	return out
}

// Run keeps the book up to date until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	for _, k := range b.all() {
		b.deps.Changed(k.spec, k.State)
	}
	var wanting sync.WaitGroup
	defer wanting.Wait()
	wanting.Go(func() { b.runWanted(ctx) }) // those that nobody knows must not hold up the others
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

func (b *Book) runWanted(ctx context.Context) {
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

func (b *Book) fetchWanted(ctx context.Context) {
	b.mu.RLock()
	var ids, once []job.ID
	for id, w := range b.wanted { // in no order, so each has its turn
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
			b.deps.Log.Debug("job not known yet", "job", id.String(), "err", err)
			b.giveUp(id)
		}
	}
}

// giveUp forgets a job that was not found for long.
func (b *Book) giveUp(id job.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.wanted[id]; ok && time.Since(w.since) >= wantedFor {
		delete(b.wanted, id)
	}
}

// ask sends a request to the owner of a job.
func (b *Book) ask(ctx context.Context, id job.ID, req *wire.JobRequest) (*wire.JobReply, error) {
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

// one sends a request that is answered with the job's record, and notes it.
func (b *Book) one(ctx context.Context, id job.ID, req *wire.JobRequest) (*wire.Job, error) {
	reply, err := b.ask(ctx, id, req)
	if err != nil {
		return nil, err
	}
	if len(reply.GetJobs()) != 1 {
		return nil, fmt.Errorf("job %s: an answer with %d records", id, len(reply.GetJobs()))
	}
	rec := reply.GetJobs()[0]
	return rec, b.note(id, rec)
}

func (b *Book) get(ctx context.Context, id job.ID) (*wire.Job, error) {
	return b.one(ctx, id, &wire.JobRequest{Get: true})
}

func (b *Book) post(ctx context.Context, spec *job.Spec) (*wire.Job, error) {
	return b.one(ctx, spec.ID, &wire.JobRequest{Post: spec.Wire()})
}

// statesTried bounds how often a change is signed anew behind another that came first.
const statesTried = 3

// setState has a job's owner change its state. Of a signed job it takes the poster's key.
func (b *Book) setState(ctx context.Context, id job.ID, state job.State) (rec *wire.Job, err error) {
	for range statesTried {
		req := &wire.JobRequest{SetState: uint32(state)}
		if k, ok := b.look(id); !ok || k.spec.Signed() {
			if rec, err = b.get(ctx, id); err != nil {
				return nil, err
			}
			if err := b.sign(id, rec, req); err != nil {
				return nil, err
			}
		}
		if rec, err = b.one(ctx, id, req); err != nil || job.State(rec.GetState()) == state {
			break
		}
	}
	return rec, err
}

// sign signs a request to change the state of a job, if the job is signed.
func (b *Book) sign(id job.ID, rec *wire.Job, req *wire.JobRequest) error {
	spec := rec.GetSpec()
	if len(spec.GetSignature()) == 0 {
		return nil
	}
	key := b.deps.Key
	if bytes.Equal(spec.GetPoster(), b.deps.Own.ID()) {
		key = b.deps.Own
	}
	if !bytes.Equal(spec.GetPoster(), key.ID()) {
		return &foreignError{id, peer.ID(spec.GetPoster()), peer.ID(b.deps.Key.ID())}
	}
	now := standingOf(rec)
	if k, ok := b.look(id); ok { // the owner may be behind
		now = now.Merge(k.Standing)
	}
	if now.State == job.State(req.GetSetState()) { // it is as it should be
		now.Version--
	}
	now = key.SignState(id, job.Standing{State: job.State(req.GetSetState()), Version: now.Version + 1})
	req.Version, req.StateSignature = now.Version, []byte(now.Signature)
	return nil
}

// foreignError: a job is of another key than this peer's.
type foreignError struct {
	id           job.ID
	poster, mine peer.ID
}

func (e *foreignError) Error() string {
	return fmt.Sprintf("job %s: only the key that posted it, %s, can change it, and that of this peer is %s: ask the peer that posted it, or run this one with --job-key FILE of that key", e.id, e.poster, e.mine)
}

// note takes a record into the book.
func (b *Book) note(id job.ID, rec *wire.Job) error {
	spec, err := job.FromWire(rec.GetSpec())
	if err != nil {
		return err
	}
	if spec.ID != id {
		return fmt.Errorf("job %s: its owner answered with another job", id)
	}
	mine, _, err := b.kept(id)
	if err == nil && !(bytes.Equal(mine.Poster, spec.Poster) && bytes.Equal(mine.Signature, spec.Signature)) {
		return fmt.Errorf("job %s: its owner answered with the job of another poster: %w", id, job.ErrConflict)
	}
	return b.learn(spec, standingOf(rec))
}

// learn merges what was heard of a job into the book, as far as it is vouched for, and keeps it on
// disk. The spec is whole.
func (b *Book) learn(spec *job.Spec, heard job.Standing) error {
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
		k = know(spec, heard)
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
		return fmt.Errorf("keep job %s: %w", spec.ID, err)
	}
	err = b.deps.Keep.UpdateNoSync(func(w kv.Batch) {
		w.Set(keyOf(spec.ID), raw)
		drop(w, over)
	})
	b.deps.Changed(kept.spec, kept.State)
	return err
}

// evict makes room for a job, and says which one is to go from the disk as well: one that is
// finished, if there is any. Another is read back when it is wanted. Called with the lock held.
func (b *Book) evict() (over []job.ID) {
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

// drop removes the records of jobs.
func drop(w kv.Batch, ids []job.ID) {
	for _, id := range ids {
		w.Delete(keyOf(id))
	}
}
