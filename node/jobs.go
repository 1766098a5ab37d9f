package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/job"
	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/node/rpc"
	"github.com/apoidea/apoidea/storage"
)

// maxKnownJobs bounds the specs in memory. A job beyond it is asked for again when one of its URLs comes along.
const maxKnownJobs = 1024

// wantedAtOnce bounds the unknown jobs that are asked for in a row: those that nobody knows, or whose owner does not answer, must not hold up
// the refresh of the others for long.
const wantedAtOnce = 16

// errUnknownJob answers for jobs that neither this peer nor the job's owner knows.
var errUnknownJob = errors.New("no such job")

// jobBook is what this peer knows of the jobs it works for: specs, which never change, and states as of the last refresh. It keeps specs on
// disk too, so that a crawl goes on when the job's owner is gone, and posts them anew to whoever owns the job then.
type jobBook struct {
	owners rpc.Owners
	keep   *storage.Keyspace
	log    *slog.Logger
	// changed is told when a job was learnt or its state is another, by several goroutines at a time.
	changed func(spec *job.Spec, state job.State)

	mu    sync.RWMutex // guards known and wanted
	known map[job.ID]*knownJob
	// wanted are the jobs that somebody asked for and that are not known.
	wanted map[job.ID]struct{}
	kick   chan struct{}
}

type knownJob struct {
	spec    *job.Spec
	state   job.State
	version uint64

	at     ring.Key
	due    time.Time     // of the next question
	pause  time.Duration // before the one after it
	failed bool          // the last question had no answer: others go first
}

func (k *knownJob) standing() job.Standing { return job.Standing{State: k.state, Version: k.version} }

func know(spec *job.Spec, s job.Standing) *knownJob {
	return &knownJob{spec: spec, state: s.State, version: s.Version, at: ring.JobKey(spec.ID.String()), pause: jobRefresh}
}

const metaJob = "job/"

// newJobBook reads the specs that are on disk.
func newJobBook(keep *storage.Keyspace, owners rpc.Owners, changed func(*job.Spec, job.State), log *slog.Logger) (*jobBook, error) {
	b := &jobBook{
		owners: owners, keep: keep, log: log, changed: changed,
		known: make(map[job.ID]*knownJob), wanted: make(map[job.ID]struct{}), kick: make(chan struct{}, 1),
	}
	var bad error
	err := keep.Scan([]byte(metaJob), storage.PrefixEnd([]byte(metaJob)), func(_, value []byte) bool {
		rec := new(wire.Job)
		if bad = proto.Unmarshal(value, rec); bad != nil {
			return false
		}
		spec, err := job.FromWire(rec.GetSpec())
		if err != nil {
			bad = err
			return false
		}
		b.known[spec.ID] = know(spec, job.Standing{State: job.State(rec.GetState()), Version: rec.GetVersion()})
		return len(b.known) < maxKnownJobs
	})
	if err = errors.Join(err, bad); err != nil {
		return nil, fmt.Errorf("known jobs: %w", err)
	}
	return b, nil
}

// Job returns the spec and state of a job, without asking anybody; unknown jobs are asked for in the background.
func (b *jobBook) Job(id job.ID) (*job.Spec, job.State, bool) {
	b.mu.RLock()
	k, ok := b.known[id]
	b.mu.RUnlock()
	if !ok {
		b.want(id)
		return nil, job.StateNone, false
	}
	return k.spec, k.state, true
}

func (b *jobBook) want(id job.ID) {
	b.mu.Lock()
	if len(b.wanted) < maxKnownJobs {
		b.wanted[id] = struct{}{}
	}
	b.mu.Unlock()
	select {
	case b.kick <- struct{}{}:
	default:
	}
}

// all returns the known jobs.
func (b *jobBook) all() []knownJob {
	b.mu.RLock()
	defer b.mu.RUnlock()
	out := make([]knownJob, 0, len(b.known))
	for _, k := range b.known {
		out = append(out, *k)
	}
	return out
}

// run keeps the book up to date until ctx ends.
func (b *jobBook) run(ctx context.Context) error {
	for _, k := range b.all() {
		b.changed(k.spec, k.state)
	}
	var wanting sync.WaitGroup
	defer wanting.Wait()
	wanting.Go(func() { b.runWanted(ctx) }) // those that nobody knows must not hold up the others
	tick := time.NewTicker(jobRefresh)
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

func (b *jobBook) runWanted(ctx context.Context) {
	tick := time.NewTicker(jobRefresh)
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

func (b *jobBook) fetchWanted(ctx context.Context) {
	b.mu.RLock()
	ids := make([]job.ID, 0, wantedAtOnce)
	for id := range b.wanted { // in no order, so each has its turn
		if ids = append(ids, id); len(ids) == wantedAtOnce {
			break
		}
	}
	b.mu.RUnlock()
	for _, id := range ids {
		if _, err := b.get(ctx, id); err != nil && ctx.Err() == nil {
			b.log.Debug("job not known yet", "job", id.String(), "err", err)
		}
	}
}

// ask sends a request to the owner of a job.
func (b *jobBook) ask(ctx context.Context, id job.ID, req *wire.JobRequest) (*wire.JobReply, error) {
	req.Id = id[:]
	reply, err := aboutJobs.CallOwner(ctx, b.owners, ring.JobKey(id.String()), req)
	if err != nil {
		return nil, fmt.Errorf("job %s: %w", id, err)
	}
	if reply.GetError() != "" {
		return nil, fmt.Errorf("%w: %s", errUnknownJob, reply.GetError())
	}
	return reply, nil
}

// one sends a request that is answered with the job's record, and notes it.
func (b *jobBook) one(ctx context.Context, id job.ID, req *wire.JobRequest) (*wire.Job, error) {
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

func (b *jobBook) get(ctx context.Context, id job.ID) (*wire.Job, error) {
	return b.one(ctx, id, &wire.JobRequest{Get: true})
}

func (b *jobBook) post(ctx context.Context, spec *job.Spec) (*wire.Job, error) {
	return b.one(ctx, spec.ID, &wire.JobRequest{Post: spec.Wire()})
}

func (b *jobBook) setState(ctx context.Context, id job.ID, state job.State) (*wire.Job, error) {
	return b.one(ctx, id, &wire.JobRequest{SetState: uint32(state)})
}

// note takes a record into the book.
func (b *jobBook) note(id job.ID, rec *wire.Job) error {
	spec, err := job.FromWire(rec.GetSpec())
	if err != nil {
		return err
	}
	if spec.ID != id {
		return fmt.Errorf("job %s: its owner answered with another job", id)
	}
	return b.learn(spec, job.Standing{State: job.State(rec.GetState()), Version: rec.GetVersion()})
}

// learn merges what was heard of a job into the book, and keeps it on disk.
func (b *jobBook) learn(spec *job.Spec, heard job.Standing) error {
	if err := heard.Validate(); err != nil {
		return fmt.Errorf("job %s: %w", spec.ID, err)
	}
	b.mu.Lock()
	delete(b.wanted, spec.ID)
	k := b.known[spec.ID]
	switch {
	case k == nil:
		if len(b.known) >= maxKnownJobs {
			b.evict()
		}
		k = know(spec, heard)
		b.known[spec.ID] = k
	case k.standing().Merge(heard) == k.standing():
		b.mu.Unlock()
		return nil
	default:
		now := k.standing().Merge(heard)
		k.state, k.version, k.pause = now.State, now.Version, jobRefresh
	}
	kept := *k
	b.mu.Unlock()
	raw, err := proto.Marshal(&wire.Job{Spec: kept.spec.Wire(), State: uint32(kept.state), Version: kept.version})
	if err != nil {
		return fmt.Errorf("keep job %s: %w", spec.ID, err)
	}
	err = b.keep.UpdateNoSync(func(w *storage.Batch) error {
		w.Set(append([]byte(metaJob), spec.ID[:]...), raw)
		return nil
	})
	b.changed(kept.spec, kept.state)
	return err
}

// evict drops a finished or canceled job if there is one, else any; called with the lock held.
func (b *jobBook) evict() {
	for id, k := range b.known {
		if k.state == job.StateCanceled || k.state == job.StateDone {
			delete(b.known, id)
			return
		}
	}
	for id := range b.known {
		delete(b.known, id)
		return
	}
}
