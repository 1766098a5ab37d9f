package job

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/apoidea/apoidea/crawl/wire"
	"github.com/apoidea/apoidea/dht/ring"
)

// KV is one record on its way between owners, or from a copy: a key and a value as the store has them.
type KV struct{ Key, Value []byte }

// bounds are the keys of the jobs at positions in [lo, hi); a zero hi is the end of the circle.
func bounds(lo, hi [posSize]byte) (from, to []byte) {
	if hi == ([posSize]byte{}) {
		return lo[:], bytes.Repeat([]byte{math.MaxUint8}, posSize+IDSize)
	}
	return lo[:], hi[:]
}

// Export calls fn for the records of the jobs at ring positions in [lo, hi), of which the first 16 bytes count, in key order, key and value lent, until it
// returns false. A zero hi is the end of the circle.
func (r *Registry) Export(lo, hi [posSize]byte, fn func(key, value []byte) bool) error {
	from, to := bounds(lo, hi)
	if err := r.store.Scan(from, to, fn); err != nil {
		return fmt.Errorf("export jobs: %w", err)
	}
	return nil
}

// Remove forgets the jobs at positions in [lo, hi) once another owner has them on disk; a zero hi is the end of the circle.
func (r *Registry) Remove(lo, hi [posSize]byte) (wait func() error, err error) {
	from, to := bounds(lo, hi)
	inside := func(id ID) bool {
		k := key(id, kindRecord)
		return bytes.Compare(k, from) >= 0 && bytes.Compare(k, to) < 0
	}
	maps.DeleteFunc(r.unsent, func(id ID, _ int64) bool { return inside(id) })
	maps.DeleteFunc(r.quotas, func(id ID, _ *quotas) bool { return inside(id) })
	if wait, err = r.store.Update(func(b Batch) { b.DeleteRange(from, to) }); err != nil {
		return nil, fmt.Errorf("remove jobs: %w", err)
	}
	return wait, nil
}

// Import merges records of other owners, or of copies, into this one's: any number of times, in any order and grouping, the outcome is the same.
// States merge as [Standing.Merge] says, the totals of accounts and what was sent of the seeds to the larger; a spec is the same or refused. With all
// accounts of which grants were acknowledged, no merge lets a budget be overshot: what is left is computed from the accounts.
//
// A record that is malformed, or does not belong where its key says, is refused with an error that names it, those before it taken. All that is taken
// is one batch; wait is never nil.
func (r *Registry) Import(kvs []KV) (wait func() error, err error) {
	m := merge{store: r.store, news: make(map[string]proto.Message)}
	for _, kv := range kvs {
		if err = m.take(kv); err != nil {
			err = fmt.Errorf("import of job record %.100x: %w", kv.Key, err)
			break
		}
	}
	if len(m.news) == 0 {
		return done, err
	}
	var encode error
	wait, failed := r.store.Update(func(b Batch) {
		for _, k := range slices.Sorted(maps.Keys(m.news)) {
			encode = errors.Join(encode, put(b, []byte(k), m.news[k]))
		}
	})
	if failed = errors.Join(failed, encode); failed != nil {
		wait = done
	}
	for k := range m.news {
		id := ID([]byte(k[posSize:]))
		delete(r.quotas, id)
		failed = errors.Join(failed, r.recountUnsent(id))
	}
	return wait, errors.Join(err, failed)
}

// merge gathers what an import changes.
type merge struct {
	store Store
	news  map[string]proto.Message
}

var errFormat = errors.New("it makes no sense")

// take merges one record.
func (m *merge) take(kv KV) error {
	if len(kv.Key) < posSize+IDSize+1 {
		return fmt.Errorf("%w: a key of %d bytes", errFormat, len(kv.Key))
	}
	id, tail := ID(kv.Key[posSize:]), kv.Key[posSize+IDSize+1:]
	if pos := ring.JobKey(id.String()); !bytes.Equal(pos[:posSize], kv.Key[:posSize]) {
		return fmt.Errorf("job %s lies elsewhere", id)
	}
	switch kind := kv.Key[posSize+IDSize]; {
	case kind == kindRecord && len(tail) == 0:
		return m.takeRecord(kv)
	case kind == kindSpec && len(tail) == 0:
		return m.takeSpec(id, kv)
	case kind == kindPeer && len(tail) > 0 && len(tail) <= wire.MaxPeer:
		return m.takeAccount(tail, kv)
	default:
		return fmt.Errorf("%w: the key", errFormat)
	}
}

// held reads what is kept under a key, changes of this import included.
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

// set notes a merged record if it is another than the one held.
func (m *merge) set(k []byte, known bool, held, merged proto.Message) {
	if !known || !proto.Equal(held, merged) {
		m.news[string(k)] = merged
	}
}

func (m *merge) takeRecord(kv KV) error {
	in, held := new(wire.Job), new(wire.Job)
	if err := decode(kv.Value, in); err != nil {
		return err
	}
	if err := standingOf(in).Validate(); err != nil {
		return err
	}
	if in.GetSeedsSent() > wire.MaxSeeds || in.GetSpec() != nil || len(in.GetAccounts()) > 0 {
		return fmt.Errorf("%w: %d seeds sent, or a record within the record", errFormat, in.GetSeedsSent())
	}
	known, err := m.held(kv.Key, held)
	if err != nil {
		return err
	}
	merged := &wire.Job{UpdatedMs: max(in.GetUpdatedMs(), held.GetUpdatedMs()), SeedsSent: max(in.GetSeedsSent(), held.GetSeedsSent())}
	setStanding(merged, standingOf(held).Merge(standingOf(in)))
	later(merged, held, in)
	m.set(kv.Key, known, held, merged)
	return nil
}

func (m *merge) takeSpec(id ID, kv KV) error {
	in, held := new(wire.JobSpec), new(wire.JobSpec)
	if err := decode(kv.Value, in); err != nil {
		return err
	}
	spec, err := FromWire(in)
	if err != nil {
		return err
	}
	if spec.ID != id {
		return fmt.Errorf("%w: the spec is of job %s", errFormat, spec.ID)
	}
	known, err := m.held(kv.Key, held)
	if err != nil {
		return err
	}
	if known && !proto.Equal(held, spec.Wire()) {
		return ErrConflict
	}
	m.set(kv.Key, known, held, spec.Wire())
	return nil
}

func (m *merge) takeAccount(peer []byte, kv KV) error {
	in, held := new(wire.Account), new(wire.Account)
	if err := decode(kv.Value, in); err != nil {
		return err
	}
	if !bytes.Equal(in.GetPeer(), peer) {
		return fmt.Errorf("%w: the account is of another peer", errFormat)
	}
	for _, t := range []totals{pagesIn(in), bytesIn(in)} {
		if *t.drawn > maxTotal || *t.returned > *t.drawn || *t.used > *t.drawn {
			return fmt.Errorf("%w: drawn %d, returned %d, used %d", errFormat, *t.drawn, *t.returned, *t.used)
		}
	}
	known, err := m.held(kv.Key, held)
	if err != nil {
		return err
	}
	merged := &wire.Account{Peer: in.GetPeer(), HeardMs: max(in.GetHeardMs(), held.GetHeardMs())}
	for _, budget := range []func(*wire.Account) totals{pagesIn, bytesIn} {
		to, a, b := budget(merged), budget(in), budget(held)
		*to.drawn, *to.returned, *to.used = max(*a.drawn, *b.drawn), max(*a.returned, *b.returned), max(*a.used, *b.used)
	}
	later(merged, held, in)
	m.set(kv.Key, known, held, merged)
	return nil
}
