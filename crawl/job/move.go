package job

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
	"github.com/apoidea/apoidea/dht/sizelimit"
	"github.com/apoidea/apoidea/storage/kv"
)

// Export calls fn for the records of the jobs at ring positions in [lo, hi), of which the first 16
// bytes count, in key order, until it returns false. Key and value are valid only during the call.
// A zero hi is the end of the ring.
func (r *Registry) Export(lo, hi ring.Pos, fn func(key, value []byte) bool) error {
	from, to := ring.Bounds(lo, hi)
	if err := r.store.Scan(from, to, fn); err != nil {
		return fmt.Errorf("exporting jobs: %w", err)
	}
	return nil
}

// Remove deletes the jobs at positions in [lo, hi) once another owner has them on disk; a zero hi
// is the end of the ring.
func (r *Registry) Remove(lo, hi ring.Pos) (wait func() error, err error) {
	from, to := ring.Bounds(lo, hi)
	inside := func(id ID) bool {
		k := key(id, kindRecord)
		return bytes.Compare(k, from) >= 0 && bytes.Compare(k, to) < 0
	}
	maps.DeleteFunc(r.open, func(id ID, _ open) bool { return inside(id) })
	maps.DeleteFunc(r.quotas, func(id ID, _ *quotas) bool { return inside(id) })
	if wait, err = r.store.Update(func(b kv.Batch) { b.DeleteRange(from, to) }); err != nil {
		return nil, fmt.Errorf("removing jobs: %w", err)
	}
	return wait, nil
}

// Import merges records of other owners or of replicas: it is idempotent and independent of order
// and grouping. States merge as in [Standing.Merge], as far as they are authenticated; totals of
// accounts and the number of sent seeds to the larger; a different spec is rejected. With the
// accounts of all acknowledged grants, no merge exceeds a budget: the rest is computed from the
// accounts.
//
// The spec of a job is needed to authenticate its state. A state without spec is stored until then,
// and may replace an earlier one, which peers that work for the job will send again. A state that
// fails authentication is skipped without an error, since later records may be valid.
//
// A record that is malformed or does not match its key is rejected with an error that names it;
// records before it are merged. All merged records are one batch; wait is never nil.
func (r *Registry) Import(kvs []kv.Record) (wait func() error, err error) {
	m := merge{store: r.store, takes: r.Takes, news: make(map[string]proto.Message)}
	for i, rec := range kvs {
		m.rest = kvs[i+1:]
		if err = m.take(rec); err != nil {
			err = fmt.Errorf("importing job record %.100x: %w", rec.Key, err)
			break
		}
	}
	if len(m.news) == 0 {
		return kv.OnDisk, err
	}
	var encode error
	wait, failed := r.store.Update(func(b kv.Batch) {
		for _, k := range slices.Sorted(maps.Keys(m.news)) {
			encode = errors.Join(encode, put(b, []byte(k), m.news[k]))
		}
	})
	if failed = errors.Join(failed, encode); failed != nil {
		wait = kv.OnDisk
	}
	for k := range m.news {
		id := ID([]byte(k[ring.PosSize:]))
		delete(r.quotas, id)
		failed = errors.Join(failed, r.recount(id))
	}
	return wait, errors.Join(err, failed)
}

// merge collects the changes of an import.
type merge struct {
	store kv.Store
	takes func(*Spec) bool
	news  map[string]proto.Message
	rest  []kv.Record // still to be processed
}

var errFormat = errors.New("malformed record")

// take merges one record.
func (m *merge) take(rec kv.Record) error {
	if len(rec.Key) < ring.PosSize+IDSize+1 {
		return fmt.Errorf("%w: key of %d bytes", errFormat, len(rec.Key))
	}
	id, tail := ID(rec.Key[ring.PosSize:]), rec.Key[ring.PosSize+IDSize+1:]
	if pos := ring.JobKey(id.String()); !bytes.Equal(pos[:ring.PosSize], rec.Key[:ring.PosSize]) {
		return fmt.Errorf("job %s does not match the position of its key", id)
	}
	switch kind := rec.Key[ring.PosSize+IDSize]; {
	case kind == kindRecord && len(tail) == 0:
		return m.takeRecord(id, rec)
	case kind == kindSpec && len(tail) == 0:
		return m.takeSpec(id, rec)
	case kind == kindPeer && len(tail) > 0 && len(tail) <= wire.MaxPeer:
		return m.takeAccount(tail, rec)
	default:
		return fmt.Errorf("%w: unknown key", errFormat)
	}
}

// held reads the record under a key, including changes of this import.
func (m *merge) held(k []byte, into proto.Message) (bool, error) {
	if news, ok := m.news[string(k)]; ok {
		proto.Merge(into, news)
		return true, nil
	}
	raw, ok, err := m.store.Get(k)
	if err != nil || !ok {
		return false, err
	}
	return true, decode(raw, into)
}

// set stores a merged record if it differs from the existing one.
func (m *merge) set(k []byte, known bool, held, merged proto.Message) {
	if !known || !proto.Equal(held, merged) {
		m.news[string(k)] = merged
	}
}

// read decodes a record of another peer; its lists are counted before.
func read(value []byte, into proto.Message) error {
	if _, err := sizelimit.Count(value[min(1, len(value)):], into); err != nil {
		return fmt.Errorf("%w: %w", errFormat, err)
	}
	return decode(value, into)
}

// specOf returns the spec of a job if known: stored here, or among the unprocessed records.
func (m *merge) specOf(id ID) (*Spec, bool, error) {
	spec, at := new(wire.JobSpec), key(id, kindSpec)
	if ok, err := m.held(at, spec); err != nil || ok {
		return by(spec), ok, err
	}
	for _, rec := range m.rest {
		if bytes.Equal(rec.Key, at) {
			spec, err := readSpec(id, rec.Value)
			return spec, err == nil, nil // its error is returned when it is imported
		}
	}
	return nil, false, nil
}

func (m *merge) takeRecord(id ID, rec kv.Record) error {
	in, held := new(wire.Job), new(wire.Job)
	if err := read(rec.Value, in); err != nil {
		return err
	}
	if err := standingOf(in).Validate(); err != nil {
		return err
	}
	if in.GetSeedsSent() > wire.MaxSeeds || in.GetSpec() != nil || len(in.GetAccounts()) > 0 {
		return fmt.Errorf("%w: %d seeds sent, or a nested record", errFormat, in.GetSeedsSent())
	}
	known, err := m.held(rec.Key, held)
	if err != nil {
		return err
	}
	merged := &wire.Job{UpdatedMs: max(in.GetUpdatedMs(), held.GetUpdatedMs()), SeedsSent: max(in.GetSeedsSent(), held.GetSeedsSent())}
	here, told := standingOf(held), standingOf(in)
	spec, ok, err := m.specOf(id)
	if err != nil {
		return err
	}
	if ok {
		told = spec.Believed(told)
		if known {
			here = spec.Believed(here)
		}
	}
	setStanding(merged, here.Merge(told))
	later(merged, held, in)
	m.set(rec.Key, known, held, merged)
	return nil
}

// readSpec decodes the spec of a job from another peer.
func readSpec(id ID, value []byte) (*Spec, error) {
	in := new(wire.JobSpec)
	if err := read(value, in); err != nil {
		return nil, err
	}
	spec, err := FromWire(in)
	if err != nil {
		return nil, err
	}
	if spec.ID != id {
		return nil, fmt.Errorf("%w: spec of job %s", errFormat, spec.ID)
	}
	return spec, nil
}

func (m *merge) takeSpec(id ID, rec kv.Record) error {
	spec, err := readSpec(id, rec.Value)
	if errors.Is(err, ErrSignature) {
		return nil
	}
	if err != nil {
		return err
	}
	if m.takes != nil && !m.takes(spec) {
		return nil
	}
	held := new(wire.JobSpec)
	known, err := m.held(rec.Key, held)
	if err != nil {
		return err
	}
	if known && !proto.Equal(held, spec.Wire()) {
		return ErrConflict
	}
	m.set(rec.Key, known, held, spec.Wire())
	if known {
		return nil
	}
	return m.judge(spec)
}

// judge reverts a state that arrived before its spec and fails authentication.
func (m *merge) judge(spec *Spec) error {
	k, rec := key(spec.ID, kindRecord), new(wire.Job)
	known, err := m.held(k, rec)
	if err != nil || !known {
		return err
	}
	judged := proto.CloneOf(rec)
	setStanding(judged, spec.Believed(standingOf(rec)))
	m.set(k, true, rec, judged)
	return nil
}

func (m *merge) takeAccount(peer []byte, rec kv.Record) error {
	in, held := new(wire.Account), new(wire.Account)
	if err := read(rec.Value, in); err != nil {
		return err
	}
	if !bytes.Equal(in.GetPeer(), peer) {
		return fmt.Errorf("%w: account of another peer", errFormat)
	}
	for _, t := range []totals{pagesIn(in), bytesIn(in)} {
		if *t.drawn > maxTotal || *t.returned > *t.drawn || *t.used > *t.drawn {
			return fmt.Errorf("%w: drawn %d, returned %d, used %d", errFormat, *t.drawn, *t.returned, *t.used)
		}
	}
	known, err := m.held(rec.Key, held)
	if err != nil {
		return err
	}
	merged := &wire.Account{Peer: in.GetPeer(), HeardMs: max(in.GetHeardMs(), held.GetHeardMs())}
	for _, budget := range []func(*wire.Account) totals{pagesIn, bytesIn} {
		to, a, b := budget(merged), budget(in), budget(held)
		*to.drawn, *to.returned, *to.used = max(*a.drawn, *b.drawn), max(*a.returned, *b.returned), max(*a.used, *b.used)
	}
	later(merged, held, in)
	m.set(rec.Key, known, held, merged)
	return nil
}
