package job

import (
	"bytes"
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

var (
	// ErrUnknown is returned for a job that is not stored here.
	ErrUnknown = errors.New("unknown job")
	// ErrConflict is returned if another spec was posted under the same ID.
	ErrConflict = errors.New("job ID is in use by another spec")
	// ErrFinal is returned for a change of a canceled job.
	ErrFinal = errors.New("the job is canceled")
)

// The keys of a job begin with 16 bytes of its ring position, so that an arc of the ring is one
// range of keys.
const (
	kindRecord = 'r' // version byte, wire.Job without its spec and accounts
	kindSpec   = 's' // version byte, wire.JobSpec
	kindPeer   = 'a' // then the peer: version byte, wire.Account

	formatVersion = 1
)

func key(id ID, kind byte, tail ...byte) []byte {
	pos := ring.PosOf(ring.JobKey(id.String()))
	k := make([]byte, 0, ring.PosSize+IDSize+1+len(tail))
	k = append(append(append(k, pos[:]...), id[:]...), kind)
	return append(k, tail...)
}

// Registry stores the records of the jobs that this peer owns. It is for use by one goroutine.
type Registry struct {
	// Takes reports whether the spec of a job from another peer is accepted; nil: always. A rejected
	// one is skipped by imports, and its job stays unknown.
	Takes func(*Spec) bool
	// Self is this peer, for whose draws the limit of held tokens does not apply.
	Self string

	store kv.Store
	// quotas are the sums over the accounts of the jobs that were drawn from since the start.
	quotas map[ID]*quotas
	// open has the unfinished jobs, and those with unsent seeds; nil until first used.
	open map[ID]open
}

// open is a job that is not canceled and is unfinished, or has unsent seeds.
type open struct {
	unsent int64
	poster string // of a signed job
	bytes  int    // of its spec
	done   bool
}

// NewRegistry returns the registry over a keyspace of its own.
func NewRegistry(store kv.Store) *Registry {
	return &Registry{store: store, quotas: make(map[ID]*quotas)}
}

func put(b kv.Batch, k []byte, m proto.Message) error {
	raw, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{formatVersion}, m)
	if err != nil {
		return fmt.Errorf("encoding job: %w", err)
	}
	b.Set(k, raw)
	return nil
}

// maxLater bounds the preserved unknown fields of an untrusted record, in bytes.
const maxLater = 4 << 10

// later merges the unknown fields of two copies of a record.
func later(into, a, b proto.Message) {
	x, y := a.ProtoReflect().GetUnknown(), b.ProtoReflect().GetUnknown()
	if bytes.Compare(x, y) < 0 {
		x = y
	}
	if len(x) <= maxLater {
		into.ProtoReflect().SetUnknown(x)
	}
}

// load reads one message; false if there is none.
func (r *Registry) load(k []byte, into proto.Message) (bool, error) {
	raw, ok, err := r.store.Get(k)
	if err != nil || !ok {
		return false, err
	}
	return true, decode(raw, into)
}

func decode(raw []byte, into proto.Message) error {
	if len(raw) == 0 || raw[0] != formatVersion {
		return errors.New("job record: unknown format")
	}
	_, fixed := into.(*wire.JobSpec) // immutable, and compared with the posted one
	if err := (proto.UnmarshalOptions{DiscardUnknown: fixed}).Unmarshal(raw[1:], into); err != nil {
		return fmt.Errorf("job record: %w", err)
	}
	return nil
}

// Post stores a job and returns its record. Posting the same spec again has no effect.
func (r *Registry) Post(nowMs int64, spec *Spec) (rec *wire.Job, wait func() error, err error) {
	return r.Restore(nowMs, spec, Posted())
}

// Restore merges a job as known by another peer with the stored one, and returns its record. A
// state that fails authentication is rejected.
func (r *Registry) Restore(nowMs int64, spec *Spec, known Standing) (rec *wire.Job, wait func() error, err error) {
	if err := known.Validate(); err != nil {
		return nil, nil, fmt.Errorf("job %s: %w", spec.ID, err)
	}
	if known, err = spec.Vouched(known); err != nil {
		return nil, nil, err
	}
	old, m := new(wire.JobSpec), spec.Wire()
	hasSpec, err := r.load(key(spec.ID, kindSpec), old)
	if err != nil {
		return nil, nil, err
	}
	if hasSpec && !proto.Equal(old, m) {
		return nil, nil, fmt.Errorf("posting job %s: %w", spec.ID, ErrConflict)
	}
	held := known
	rec, err = r.record(spec.ID)
	switch {
	case errors.Is(err, ErrUnknown):
		rec = &wire.Job{}
	case err != nil:
		return nil, nil, err
	default:
		held = spec.Believed(standingOf(rec)) // it may have arrived before its spec
	}
	wait = kv.OnDisk
	if now := held.Merge(known); !hasSpec || now != standingOf(rec) {
		setStanding(rec, now)
		if now.State != StateDone { // the time of completion is not part of the restored state
			rec.UpdatedMs = nowMs
		}
		var encode error
		wait, err = r.store.Update(func(b kv.Batch) {
			encode = errors.Join(put(b, key(spec.ID, kindSpec), m), put(b, key(spec.ID, kindRecord), rec))
		})
		if err = errors.Join(err, encode); err != nil {
			return nil, nil, err
		}
		r.count(spec.ID, rec, m)
	}
	rec.Spec = m
	return rec, wait, nil
}

func standingOf(rec *wire.Job) Standing {
	return Standing{State(rec.GetState()), rec.GetVersion(), Refresh(rec.GetRefresh()), string(rec.GetStateSignature())}
}

func setStanding(rec *wire.Job, s Standing) {
	rec.State, rec.Version, rec.Refresh, rec.StateSignature = uint32(s.State), s.Version, uint64(s.Refresh), []byte(s.Signature)
}

// Get returns the record of a job with its spec, or ErrUnknown, also for a job of which only a part
// was imported.
func (r *Registry) Get(id ID) (*wire.Job, error) {
	rec, err := r.record(id)
	if err != nil {
		return nil, err
	}
	rec.Spec = new(wire.JobSpec)
	if ok, err := r.load(key(id, kindSpec), rec.GetSpec()); err != nil || !ok {
		return nil, errors.Join(err, unknown(id, ok))
	}
	return rec, nil
}

// Standing returns the state of a job, or ErrUnknown, with one small read.
func (r *Registry) Standing(id ID) (Standing, error) {
	rec, err := r.record(id)
	return standingOf(rec), err
}

func (r *Registry) record(id ID) (*wire.Job, error) {
	rec := new(wire.Job)
	ok, err := r.load(key(id, kindRecord), rec)
	return rec, errors.Join(err, unknown(id, ok || err != nil))
}

func unknown(id ID, known bool) error {
	if known {
		return nil
	}
	return fmt.Errorf("job %s: %w", id, ErrUnknown)
}

// ids returns up to wire.MaxJobList jobs stored here behind one in ring order, or from the first
// behind none.
func (r *Registry) ids(behind ID) (ids []ID, err error) {
	var from []byte
	if behind != (ID{}) {
		from = key(behind, kindRecord, 0)
	}
	err = r.store.Scan(from, nil, func(k, _ []byte) bool {
		if len(k) == ring.PosSize+IDSize+1 && k[ring.PosSize+IDSize] == kindRecord {
			ids = append(ids, ID(k[ring.PosSize:ring.PosSize+IDSize]))
		}
		return len(ids) < wire.MaxJobList
	})
	if err != nil {
		return nil, fmt.Errorf("listing jobs: %w", err)
	}
	return ids, nil
}

// List returns the records of jobs stored here with their specs, in ring order: those behind one,
// or from the first behind none, up to a total size in bytes, but at least one.
func (r *Registry) List(behind ID, room int) ([]*wire.Job, error) {
	ids, err := r.ids(behind)
	if err != nil {
		return nil, err
	}
	var list []*wire.Job
	for _, id := range ids {
		rec, err := r.Get(id)
		if errors.Is(err, ErrUnknown) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if room -= proto.Size(rec); room < 0 && len(list) > 0 {
			break
		}
		list = append(list, rec)
	}
	return list, nil
}

// SetState changes state and refresh of a job and returns its record. Equal ones have no effect; a
// canceled job stays canceled. For a signed job version and signature count as well: without the
// signature the change is rejected, and a version lower than the stored one has no effect.
func (r *Registry) SetState(nowMs int64, id ID, to Standing) (rec *wire.Job, wait func() error, err error) {
	asked := to.State
	if asked == StateNone || asked >= stateEnd {
		return nil, nil, fmt.Errorf("job %s: unknown state %d", id, asked)
	}
	return r.change(nowMs, id, func(rec *wire.Job) error {
		spec, held := by(rec.GetSpec()), standingOf(rec)
		switch {
		case spec.Signed():
			vouched, err := spec.Vouched(to)
			if err = errors.Join(err, to.Validate()); err != nil {
				return err
			}
			to = held.Merge(vouched)
		case to.State == held.State && to.Refresh == held.Refresh:
			return nil
		default:
			to.Version, to.Signature = min(held.Version+1, maxVersion), "" // at maxVersion a job can still be paused and canceled: Standing.Merge
		}
		if held.State == StateCanceled && asked != StateCanceled {
			return ErrFinal
		}
		setStanding(rec, to)
		return nil
	})
}

// SeedsSent records how many of the job's seeds were sent to the owners of their hosts.
func (r *Registry) SeedsSent(nowMs int64, id ID, n uint64) (wait func() error, err error) {
	_, wait, err = r.change(nowMs, id, func(rec *wire.Job) error {
		rec.SeedsSent = max(rec.GetSeedsSent(), min(n, uint64(len(rec.GetSpec().GetSeeds()))))
		return nil
	})
	return wait, err
}

func (r *Registry) change(nowMs int64, id ID, fn func(*wire.Job) error) (rec *wire.Job, wait func() error, err error) {
	if rec, err = r.Get(id); err != nil {
		return nil, nil, err
	}
	held, sent := standingOf(rec), rec.GetSeedsSent()
	if err := fn(rec); err != nil {
		return nil, nil, fmt.Errorf("job %s: %w", id, err)
	}
	if held == standingOf(rec) && sent == rec.GetSeedsSent() {
		return rec, kv.OnDisk, nil
	}
	if held != standingOf(rec) {
		rec.UpdatedMs = nowMs
	}
	spec := rec.GetSpec()
	rec.Spec = nil
	var encode error
	wait, err = r.store.Update(func(b kv.Batch) { encode = put(b, key(id, kindRecord), rec) })
	rec.Spec = spec
	if err = errors.Join(err, encode); err != nil {
		return nil, nil, err
	}
	r.count(id, rec, spec)
	return rec, wait, nil
}

// Unsent returns the number of seeds by job that are not known to be at the owners of their hosts,
// for the jobs stored here that are not canceled; jobs without any are omitted. The map is the
// caller's. The first call after the start reads all specs.
func (r *Registry) Unsent() (map[ID]int64, error) {
	if err := r.countOpen(); err != nil {
		return nil, err
	}
	unsent := make(map[ID]int64)
	for id, o := range r.open {
		if o.unsent > 0 {
			unsent[id] = o.unsent
		}
	}
	return unsent, nil
}

// Unfinished returns the number of a poster's signed jobs stored here that are neither canceled nor
// done, and the bytes of their specs.
func (r *Registry) Unfinished(poster []byte) (jobs, bytes int, err error) {
	err = r.countOpen()
	for _, o := range r.open {
		if o.poster == string(poster) && !o.done {
			jobs++
			bytes += o.bytes
		}
	}
	return jobs, bytes, err
}

func (r *Registry) countOpen() error {
	if r.open != nil {
		return nil
	}
	ids, err := r.ids(ID{})
	if err != nil {
		return err
	}
	r.open = make(map[ID]open)
	for _, id := range ids {
		if err := r.recount(id); err != nil {
			r.open = nil
			return err
		}
	}
	return nil
}

// recount counts a job anew from the store after an import.
func (r *Registry) recount(id ID) error {
	if r.open == nil {
		return nil
	}
	rec, err := r.Get(id)
	if errors.Is(err, ErrUnknown) {
		delete(r.open, id)
		return nil
	}
	if err == nil {
		r.count(id, rec, rec.GetSpec())
	}
	return err
}

func (r *Registry) count(id ID, rec *wire.Job, spec *wire.JobSpec) {
	if r.open == nil {
		return
	}
	o := open{unsent: int64(len(spec.GetSeeds())) - int64(min(rec.GetSeedsSent(), wire.MaxSeeds)), bytes: proto.Size(spec), done: State(rec.GetState()) == StateDone}
	if State(rec.GetState()) == StateCanceled || o.done && o.unsent <= 0 {
		delete(r.open, id)
		return
	}
	if len(spec.GetSignature()) > 0 {
		o.poster = string(spec.GetPoster())
	}
	r.open[id] = o
}
