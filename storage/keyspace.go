package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/apoidea/apoidea/storage/kv"
)

// Keyspace is the part of a store whose keys begin with one byte. Its callers pass and get keys
// without that byte. It is a small value, safe for concurrent use.
type Keyspace struct {
	store  *Store
	prefix byte
}

var _ kv.Store = (*Keyspace)(nil)

// Keyspace returns the keyspace of prefix, one of the constants in store.go.
func (s *Store) Keyspace(prefix byte) *Keyspace {
	return &Keyspace{store: s, prefix: prefix}
}

// keyRoom is enough for most keys to be prefixed without an allocation.
const keyRoom = 128

// Get returns a copy of the value of key, and whether there is one.
func (k *Keyspace) Get(key []byte) (value []byte, ok bool, err error) {
	err = k.get(key, func(v []byte) { value, ok = append([]byte{}, v...), true })
	return value, ok, err
}

// Has reports whether key has a value.
func (k *Keyspace) Has(key []byte) (ok bool, err error) {
	err = k.get(key, func([]byte) { ok = true })
	return ok, err
}

// get calls found with the value of key, valid during the call, unless there is none.
func (k *Keyspace) get(key []byte, found func([]byte)) error {
	if err := k.store.enter(); err != nil {
		return err
	}
	defer k.store.running.Done()
	var room [keyRoom]byte
	value, closer, err := k.store.db.Get(append(append(room[:0], k.prefix), key...))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read storage: %w", damage(err))
	}
	found(value)
	return closer.Close()
}

// Scan calls fn for the keys in [lo, hi) in order, until fn returns false; key and value are valid
// only during the call. A nil lo is the keyspace's first key, a nil hi its end. It reads a snapshot
// from when Scan began: fn may change the keyspace, and does not see its own changes.
func (k *Keyspace) Scan(lo, hi []byte, fn func(key, value []byte) bool) error {
	if err := k.store.enter(); err != nil {
		return err
	}
	defer k.store.running.Done()
	it, err := k.store.db.NewIter(&pebble.IterOptions{LowerBound: lower(k.prefix, lo), UpperBound: upper(k.prefix, hi)})
	if err != nil {
		return fmt.Errorf("scan storage: %w", damage(err))
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, verr := it.ValueAndErr()
		if verr != nil {
			err = verr
			break
		}
		if !fn(it.Key()[1:], value) {
			break
		}
	}
	if err := errors.Join(err, it.Close()); err != nil {
		return fmt.Errorf("scan storage: %w", damage(err))
	}
	return nil
}

func lower(prefix byte, lo []byte) []byte { return append([]byte{prefix}, lo...) }

func upper(prefix byte, hi []byte) []byte {
	if hi == nil {
		return []byte{prefix + 1}
	}
	return append([]byte{prefix}, hi...)
}

// batch collects changes of one keyspace during an Update; it is invalid after it and not safe for
// concurrent use. Slices given to it may be reused at once.
type batch struct {
	store  *Store
	prefix byte
	batch  *pebble.Batch
	sets   bool  // it sets keys
	few    int   // ranges checked by fewKeys
	err    error // the first
}

var _ kv.Batch = (*batch)(nil)

// Set implements kv.Batch.
func (b *batch) Set(key, value []byte) {
	var room [keyRoom]byte
	b.sets = true
	b.setErr(b.batch.Set(b.full(room[:0], key), value, nil))
}

// Delete implements kv.Batch.
func (b *batch) Delete(key []byte) {
	var room [keyRoom]byte
	b.setErr(b.batch.Delete(b.full(room[:0], key), nil))
}

// DeleteRange implements kv.Batch. Keys set by concurrent writers may stay.
func (b *batch) DeleteRange(lo, hi []byte) {
	lo, hi = lower(b.prefix, lo), upper(b.prefix, hi)
	if !b.sets && b.few < fewRanges { // else keys of the batch itself may be in the range
		b.few++
		keys, few, err := b.store.few(lo, hi)
		if b.setErr(err); few {
			for _, key := range keys {
				b.setErr(b.batch.Delete(key, nil))
			}
			return
		}
	}
	b.setErr(b.batch.DeleteRange(lo, hi, nil))
}

// fewKeys: a range with at most so many keys is deleted key by key. Range deletions slow down later
// reads of the memory table, as the first read after one sorts all ranges: thousands of small ones
// take minutes.
const fewKeys = 32

// fewRanges is the maximum number of ranges of one batch checked for that.
const fewRanges = 4096

// few lists the keys in [lo, hi) if they are at most fewKeys.
func (s *Store) few(lo, hi []byte) (keys [][]byte, few bool, err error) {
	if err := s.enter(); err != nil {
		return nil, false, err
	}
	defer s.running.Done()
	it, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lo, UpperBound: hi})
	if err != nil {
		return nil, false, fmt.Errorf("scan storage: %w", err)
	}
	for ok := it.First(); ok && len(keys) <= fewKeys; ok = it.Next() {
		keys = append(keys, bytes.Clone(it.Key()))
	}
	if err := it.Close(); err != nil {
		return nil, false, fmt.Errorf("scan storage: %w", err)
	}
	return keys, len(keys) <= fewKeys, nil
}

func (b *batch) full(room, key []byte) []byte { return append(append(room, b.prefix), key...) }

func (b *batch) setErr(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

// Update collects the changes of fn and applies them atomically. When it returns, they are visible
// to every reader; when wait returns nil, they are on disk. wait may be called late, often,
// concurrently, or never. Both errors are ErrFailed once the disk has failed; then applied changes
// may or may not be there at the next start.
func (k *Keyspace) Update(fn func(kv.Batch)) (wait func() error, err error) {
	batch, err := k.collect(fn)
	if err != nil {
		return nil, err
	}
	if batch.Empty() {
		return k.store.Err, batch.Close()
	}
	return k.store.apply(batch)
}

// UpdateLazily is Update without its own sync, for batches that are rarely waited for: the first
// call of wait syncs.
func (k *Keyspace) UpdateLazily(fn func(kv.Batch)) (wait func() error, err error) {
	return sync.OnceValue(k.Sync), k.UpdateNoSync(fn)
}

// Sync returns when all earlier writes are on disk. It writes an empty deletion, whose sync
// includes them.
func (k *Keyspace) Sync() error {
	wait, err := k.Update(func(b kv.Batch) { b.Delete(nil) })
	if err != nil {
		return err
	}
	return wait()
}

// UpdateNoSync is Update without wait. The changes reach the disk with the next synced batch, or
// when the store is closed.
func (k *Keyspace) UpdateNoSync(fn func(kv.Batch)) error {
	batch, err := k.collect(fn)
	if err != nil {
		return err
	}
	if batch.Empty() {
		return batch.Close()
	}
	s := k.store
	done := make(chan error, 1)
	if err := s.enter(); err != nil {
		return err
	}
	go func() {
		defer s.running.Done()
		err := s.db.Apply(batch, pebble.NoSync)
		done <- errors.Join(err, batch.Close())
	}()
	return s.await(done)
}

func (k *Keyspace) collect(fn func(kv.Batch)) (*pebble.Batch, error) {
	if err := k.store.Err(); err != nil {
		return nil, err
	}
	b := &batch{store: k.store, prefix: k.prefix, batch: k.store.db.NewBatch()} // only memory until it is applied; needs no open database
	if fn(b); b.err != nil {
		return nil, errors.Join(b.err, b.batch.Close())
	}
	return b.batch, nil
}

// apply runs the commit in its own goroutine, because a failed disk can block it for ever. That
// goroutine ends when the batch is on disk, or sleeps with the store.
func (s *Store) apply(batch *pebble.Batch) (wait func() error, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	applied, synced := make(chan error, 1), make(chan error, 1)
	go func() {
		defer s.running.Done()
		err := s.db.ApplyNoSyncWait(batch, pebble.Sync)
		applied <- err
		if err == nil {
			synced <- errors.Join(batch.SyncWait(), batch.Close())
		}
	}()
	if err := s.await(applied); err != nil {
		return nil, err
	}
	return sync.OnceValue(func() error { return s.await(synced) }), nil
}

// await waits for a step of a commit, or for the failure of the store.
func (s *Store) await(step <-chan error) error {
	select {
	case err := <-step:
		return s.commitError(err)
	case <-s.failure.done:
	}
	// The step may have been done before the failure; then it counts.
	select {
	case err := <-step:
		return s.commitError(err)
	default:
		return s.failure.Err()
	}
}

func (s *Store) commitError(err error) error {
	if err != nil {
		return fmt.Errorf("write storage: %w", err)
	}
	return nil
}
