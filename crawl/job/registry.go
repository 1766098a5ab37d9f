package job

import (
	"bytes"
	"errors"
	"fmt"
	"maps"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/storage/kv"
)

var (
	// ErrUnknown: no job of that ID is kept here.
	ErrUnknown = errors.New("unknown job")
	// ErrConflict: another spec was posted under the same ID.
	ErrConflict = errors.New("another job has this ID")
	// ErrFinal: a canceled job stays so.
	ErrFinal = errors.New("the job is canceled")
)

// The key of everything about a job begins with 16 bytes of its ring position, so that an arc of
// the ring is one range of keys.
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

// Registry keeps the records of the jobs that this peer owns on the ring. For use by one goroutine.
type Registry struct {
	// Takes says whether the spec of a job is kept when it comes from another peer; nil: all are. One
	// that is not is left out of what is imported, and its job stays unknown.
	Takes func(*Spec) bool

	store kv.Store
	// quotas are the sums over the accounts of the jobs that were drawn from since the start.
	quotas map[ID]*quotas
	// unsent counts the seeds that are still to be sent, of each job that has some; nil until it is
	// asked for.
	unsent map[ID]int64
}

// NewRegistry returns the registry over a keyspace of its own.
func NewRegistry(store kv.Store) *Registry {
	return &Registry{store: store, quotas: make(map[ID]*quotas)}
}

func put(b kv.Batch, k []byte, m proto.Message) error {
	raw, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{formatVersion}, m)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	b.Set(k, raw)
	return nil
}

// maxLater bounds what is taken of fields that are not known here; more is a stranger's.
const maxLater = 4 << 10

// later takes over the unknown fields that one of two copies of a record has.
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
		return errors.New("job record: another format")
	}
	_, fixed := into.(*wire.JobSpec) // never changes, and is held against what is posted
	if err := (proto.UnmarshalOptions{DiscardUnknown: fixed}).Unmarshal(raw[1:], into); err != nil {
		return fmt.Errorf("job record: %w", err)
	}
	return nil
}

// Post notes a job. Posting the same spec again changes nothing; the answer is the record as it
// stands.
func (r *Registry) Post(nowMs int64, spec *Spec) (rec *wire.Job, wait func() error, err error) {
	return r.Restore(nowMs, spec, Posted())
}

// Restore notes a job as another peer knows it, which merges with what is noted here; the answer is
// the record as it stands. What is not vouched for is refused.
func (r *Registry) Restore(nowMs int64, spec *Spec, known Standing) (rec *wire.Job, wait func() error, err error) {
	if err := known.Validate(); err != nil {
		return nil, nil, fmt.Errorf("job %s: %w", spec.ID, err)
	}
	if known, err = spec.Vouched(known); err != nil {
		return nil, nil, err
	}
	old := new(wire.JobSpec)
	hasSpec, err := r.load(key(spec.ID, kindSpec), old)
	if err != nil {
		return nil, nil, err
	}
	if hasSpec && !proto.Equal(old, spec.Wire()) {
		return nil, nil, fmt.Errorf("post %s: %w", spec.ID, ErrConflict)
	}
	held := known
	rec, err = r.record(spec.ID)
	switch {
	case errors.Is(err, ErrUnknown):
		rec = &wire.Job{}
	case err != nil:
		return nil, nil, err
	default:
		held = spec.Believed(standingOf(rec)) // it may have come before its spec
	}
	wait = kv.OnDisk
	if now := held.Merge(known); !hasSpec || now != standingOf(rec) {
		setStanding(rec, now)
		if now.State != StateDone { // whoever restores it does not know when that was
			rec.UpdatedMs = nowMs
		}
		var encode error
		wait, err = r.store.Update(func(b kv.Batch) {
			encode = errors.Join(put(b, key(spec.ID, kindSpec), spec.Wire()), put(b, key(spec.ID, kindRecord), rec))
		})
		if err = errors.Join(err, encode); err != nil {
			return nil, nil, err
		}
		r.countUnsent(spec.ID, rec, len(spec.Seeds))
	}
	rec.Spec = spec.Wire()
	return rec, wait, nil
}

func standingOf(rec *wire.Job) Standing {
	return Standing{State(rec.GetState()), rec.GetVersion(), string(rec.GetStateSignature())}
}

func setStanding(rec *wire.Job, s Standing) {
	rec.State, rec.Version, rec.StateSignature = uint32(s.State), s.Version, []byte(s.Signature)
}

// Get returns the record of a job with its spec, or ErrUnknown. A job of which only a part has come
// from another peer is not known yet.
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

// Standing returns the state of a job, or ErrUnknown, at the cost of one small read.
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

// ids returns the jobs kept here behind one in ring order, behind none from the first, at most
// wire.MaxJobList.
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
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return ids, nil
}

// List returns the records of jobs kept here with their specs, in ring order: those behind one,
// behind none from the first, that have room in so many bytes, or one that has not.
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

// SetState moves a job to a state. The same state again changes nothing; a canceled job stays
// canceled. Of a signed job version and signature count as well: without the signature the change
// is refused, and behind a later one it changes nothing. The answer is the record as it stands.
func (r *Registry) SetState(nowMs int64, id ID, to Standing) (rec *wire.Job, wait func() error, err error) {
	asked := to.State
	if asked == StateNone || asked >= stateEnd {
		return nil, nil, fmt.Errorf("job %s: no state %d", id, asked)
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
		case to.State == held.State:
			return nil
		default:
			to.Version, to.Signature = min(held.Version+1, maxVersion), "" // at the last one a job can still be paused and canceled: Standing.Merge
		}
		if held.State == StateCanceled && asked != StateCanceled {
			return ErrFinal
		}
		setStanding(rec, to)
		return nil
	})
}

// SeedsSent notes how many of the job's seeds have been handed to the owners of their hosts.
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
	r.countUnsent(id, rec, len(spec.GetSeeds()))
	return rec, wait, nil
}

// Unsent counts, of each job kept here that is not canceled, the seeds that are not known to be
// with the owners of their hosts; jobs without any are left out. The map is the caller's. The first
// call after the start reads all specs.
func (r *Registry) Unsent() (map[ID]int64, error) {
	if r.unsent == nil {
		ids, err := r.ids(ID{})
		if err != nil {
			return nil, err
		}
		r.unsent = make(map[ID]int64)
		for _, id := range ids {
			if err := r.recountUnsent(id); err != nil {
				r.unsent = nil
				return nil, err
			}
		}
	}
	return maps.Clone(r.unsent), nil
}

// recountUnsent counts a job's seeds from what is stored, after others than the callers of this
// registry changed it.
func (r *Registry) recountUnsent(id ID) error {
	if r.unsent == nil {
		return nil
	}
	rec, err := r.Get(id)
	if errors.Is(err, ErrUnknown) {
		delete(r.unsent, id)
		return nil
	}
	if err == nil {
		r.countUnsent(id, rec, len(rec.GetSpec().GetSeeds()))
	}
	return err
}

func (r *Registry) countUnsent(id ID, rec *wire.Job, seeds int) {
	if r.unsent == nil {
		return
	}
	left := int64(seeds) - int64(min(rec.GetSeedsSent(), wire.MaxSeeds))
	if left <= 0 || State(rec.GetState()) == StateCanceled {
		delete(r.unsent, id)
		return
	}
	r.unsent[id] = left
}
