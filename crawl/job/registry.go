package job

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// Store is what is asked of the disk: ordered keys, whole batches.
type Store interface {
	// Get returns a copy of a value.
	Get(key []byte) (value []byte, ok bool, err error)
	// Scan calls fn in key order for the keys in [lo, hi) until it returns false; key and value are lent for the call.
	Scan(lo, hi []byte, fn func(key, value []byte) bool) error
	// Update applies what fn puts into the batch, all or nothing, before it returns; wait returns when it is on disk. What an earlier
	// Update wrote is on disk no later.
	Update(fn func(Batch)) (wait func() error, err error)
}

// Batch gathers changes, which apply in their order. Keys and values are copied.
type Batch interface {
	Set(key, value []byte)
	Delete(key []byte)
	DeleteRange(lo, hi []byte)
}

var (
	// ErrUnknown: no job of that ID is kept here.
	ErrUnknown = errors.New("unknown job")
	// ErrConflict: another spec was posted under the same ID.
	ErrConflict = errors.New("another job has this ID")
	// ErrFinal: a canceled job stays so.
	ErrFinal = errors.New("the job is canceled")
)

// The key of everything about a job begins with 16 bytes of its ring position, so that an arc of the ring is one range of keys.
const (
	posSize    = 16
	kindRecord = 'r' // version byte, wire.Job without its spec and accounts
	kindSpec   = 's' // version byte, wire.JobSpec
	kindPeer   = 'a' // then the peer: version byte, wire.Account

	formatVersion = 1
)

func key(id ID, kind byte, tail ...byte) []byte {
	pos := ring.JobKey(id.String())
	k := make([]byte, 0, posSize+IDSize+1+len(tail))
	k = append(append(append(k, pos[:posSize]...), id[:]...), kind)
	return append(k, tail...)
}

// Registry keeps the records of the jobs that this peer owns on the ring. For use by one goroutine.
type Registry struct{ store Store }

// NewRegistry returns the registry over a keyspace of its own.
func NewRegistry(store Store) *Registry { return &Registry{store: store} }

func put(b Batch, k []byte, m proto.Message) error {
	raw, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend([]byte{formatVersion}, m)
	if err != nil {
		return fmt.Errorf("encode job: %w", err)
	}
	b.Set(k, raw)
	return nil
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
	if err := proto.Unmarshal(raw[1:], into); err != nil {
		return fmt.Errorf("job record: %w", err)
	}
	return nil
}

// Post notes a job. Posting the same spec again changes nothing; the answer is the record as it stands.
func (r *Registry) Post(nowMs int64, spec *Spec) (rec *wire.Job, wait func() error, err error) {
	if rec, err = r.Get(spec.ID); err == nil {
		if !proto.Equal(rec.GetSpec(), spec.Wire()) {
			return nil, nil, fmt.Errorf("post %s: %w", spec.ID, ErrConflict)
		}
		return rec, done, nil
	} else if !errors.Is(err, ErrUnknown) {
		return nil, nil, err
	}
	rec = &wire.Job{State: uint32(StateRunning), Version: 1, UpdatedMs: nowMs}
	var encode error
	wait, err = r.store.Update(func(b Batch) {
		encode = errors.Join(put(b, key(spec.ID, kindSpec), spec.Wire()), put(b, key(spec.ID, kindRecord), rec))
	})
	rec.Spec = spec.Wire()
	return rec, wait, errors.Join(err, encode)
}

func done() error { return nil }

// Get returns the record of a job with its spec, or ErrUnknown.
func (r *Registry) Get(id ID) (*wire.Job, error) {
	rec, err := r.record(id)
	if err != nil {
		return nil, err
	}
	rec.Spec = new(wire.JobSpec)
	if ok, err := r.load(key(id, kindSpec), rec.GetSpec()); err != nil || !ok {
		return nil, errors.Join(err, fmt.Errorf("job %s: its spec is missing", id))
	}
	return rec, nil
}

func (r *Registry) record(id ID) (*wire.Job, error) {
	rec := new(wire.Job)
	ok, err := r.load(key(id, kindRecord), rec)
	if err == nil && !ok {
		err = fmt.Errorf("job %s: %w", id, ErrUnknown)
	}
	return rec, err
}

// List returns the records of all jobs kept here with their specs, in ring order, at most wire.MaxJobList.
func (r *Registry) List() ([]*wire.Job, error) {
	var ids []ID
	err := r.store.Scan(nil, nil, func(k, _ []byte) bool {
		if len(k) == posSize+IDSize+1 && k[posSize+IDSize] == kindRecord {
			ids = append(ids, ID(k[posSize:posSize+IDSize]))
		}
		return len(ids) < wire.MaxJobList
	})
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	list := make([]*wire.Job, 0, len(ids))
	for _, id := range ids {
		rec, err := r.Get(id)
		if err != nil {
			return nil, err
		}
		list = append(list, rec)
	}
	return list, nil
}

// SetState moves a job to a state. The same state again changes nothing; a canceled job stays canceled.
func (r *Registry) SetState(nowMs int64, id ID, state State) (rec *wire.Job, wait func() error, err error) {
	if state == StateNone || state >= stateEnd {
		return nil, nil, fmt.Errorf("job %s: no state %d", id, state)
	}
	return r.change(nowMs, id, func(rec *wire.Job) error {
		switch State(rec.GetState()) {
		case state:
			return nil
		case StateCanceled:
			return ErrFinal
		default:
			rec.State, rec.Version = uint32(state), rec.GetVersion()+1
			return nil
		}
	})
}

// SeedsSent notes how many of the job's seeds have been handed to the owners of their hosts.
func (r *Registry) SeedsSent(nowMs int64, id ID, n uint64) (wait func() error, err error) {
	_, wait, err = r.change(nowMs, id, func(rec *wire.Job) error {
		rec.SeedsSent = max(rec.GetSeedsSent(), n)
		return nil
	})
	return wait, err
}

func (r *Registry) change(nowMs int64, id ID, fn func(*wire.Job) error) (rec *wire.Job, wait func() error, err error) {
	if rec, err = r.record(id); err != nil {
		return nil, nil, err
	}
	before := proto.CloneOf(rec)
	if err := fn(rec); err != nil {
		return nil, nil, fmt.Errorf("job %s: %w", id, err)
	}
	wait = done
	if !proto.Equal(before, rec) {
		rec.UpdatedMs = nowMs
		var encode error
		wait, err = r.store.Update(func(b Batch) { encode = put(b, key(id, kindRecord), rec) })
		if err = errors.Join(err, encode); err != nil {
			return nil, nil, err
		}
	}
	rec, err = r.Get(id)
	return rec, wait, err
}
