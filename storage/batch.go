package storage

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"
)

// Batch collects changes inside an Update; it is not for use after it, nor by several goroutines. Slices given to it may
// be reused at once. The batch of Store.Update takes whole keys, which begin with the prefix of their keyspace; In gives
// a view of it that adds the prefix.
type Batch struct {
	*collected
	prefixed bool
	prefix   byte
}

// collected is what all views of a batch share.
type collected struct {
	store *Store
	batch *pebble.Batch
	sets  bool  // it gives keys values
	few   int   // ranges that were looked at
	err   error // the first
}

// In returns a view of the same batch whose keys are those of the keyspace of prefix. It is called on the batch that
// Store.Update hands out, not on a view.
func (b *Batch) In(prefix byte) *Batch {
	return &Batch{collected: b.collected, prefixed: true, prefix: prefix}
}

// Set gives key a value.
func (b *Batch) Set(key, value []byte) {
	var room [keyRoom]byte
	b.sets = true
	b.note(b.batch.Set(b.full(room[:0], key), value, nil))
}

// Delete removes key; that it is not there is no error.
func (b *Batch) Delete(key []byte) {
	var room [keyRoom]byte
	b.note(b.batch.Delete(b.full(room[:0], key), nil))
}

// DeleteRange removes all keys in [lo, hi). In a view a nil hi is the keyspace's end. What others write there while the batch is collected may stay.
func (b *Batch) DeleteRange(lo, hi []byte) {
	if b.prefixed {
		lo, hi = lower(b.prefix, lo), upper(b.prefix, hi)
	}
	if !b.sets && b.few < fewRanges { // else keys of the batch itself may lie in the range
		b.few++
		keys, few, err := b.store.few(lo, hi)
		if b.note(err); few {
			for _, key := range keys {
				b.note(b.batch.Delete(key, nil))
			}
			return
		}
	}
	b.note(b.batch.DeleteRange(lo, hi, nil))
}

// fewKeys is up to how many keys of a range are deleted one by one. Each range deleted makes all later reads of the memory table dearer: the first
// after it sorts all of them, so that thousands of small ones, one after another, take minutes.
const fewKeys = 32

// fewRanges bounds how many ranges of one batch are looked at for that: a peer may send a million.
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

func (b *Batch) full(room, key []byte) []byte {
	if !b.prefixed {
		return key
	}
	return append(append(room, b.prefix), key...)
}

func (b *Batch) note(err error) {
	if err != nil && b.err == nil {
		b.err = err
	}
}

// Len returns how many changes the batch holds, those of all its views together.
func (b *Batch) Len() int { return int(b.batch.Count()) }

// Update collects the changes that fn makes and applies them as one. When it returns, every reader sees them; when wait
// returns nil, they are on disk. wait may be called late, often, by several goroutines, or never. An error of fn discards
// the batch and comes back as it is. Both errors are ErrFailed once the disk has failed, and then what was applied may
// or may not be there at the next start.
func (s *Store) Update(fn func(*Batch) error) (wait func() error, err error) {
	batch, err := s.collect(fn)
	if err != nil {
		return nil, err
	}
	if batch.Empty() {
		return s.Err, batch.Close()
	}
	return s.apply(batch)
}

// UpdateNoSync is Update without a way to wait. The changes reach the disk with the next batch that is waited for, or
// when the store is closed.
func (s *Store) UpdateNoSync(fn func(*Batch) error) error {
	batch, err := s.collect(fn)
	if err != nil {
		return err
	}
	if batch.Empty() {
		return batch.Close()
	}
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

func (s *Store) collect(fn func(*Batch) error) (*pebble.Batch, error) {
	if err := s.Err(); err != nil {
		return nil, err
	}
	c := &collected{store: s, batch: s.db.NewBatch()} // plain memory until it is applied: it needs no open database
	if err := errors.Join(fn(&Batch{collected: c}), c.err); err != nil {
		return nil, errors.Join(err, c.batch.Close())
	}
	return c.batch, nil
}

// apply runs the commit in a goroutine of its own: it can be held up for ever by a disk that failed, and the caller
// must not be. That goroutine ends when the batch is on disk, or sleeps with the store.
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
