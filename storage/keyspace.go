package storage

import (
	"errors"
	"fmt"

	"github.com/apoidea/apoidea/storage/kv"
	"github.com/cockroachdb/pebble/v2"
)

// Keyspace is the part of a store whose keys begin with one byte. Its callers pass and get keys
// without that byte. It is a small value, safe for concurrent use.
type Keyspace struct {
	store  *Store
	prefix byte
}

var _ kv.Store = (*Keyspace)(nil)

// Keyspace returns the keyspace of prefix, one of the constants in keys.go.
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
	it, err := k.store.db.NewIter(k.bounds(lo, hi))
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

func (k *Keyspace) bounds(lo, hi []byte) *pebble.IterOptions {
	return &pebble.IterOptions{LowerBound: lower(k.prefix, lo), UpperBound: upper(k.prefix, hi)}
}

func lower(prefix byte, lo []byte) []byte { return append([]byte{prefix}, lo...) }

func upper(prefix byte, hi []byte) []byte {
	if hi == nil {
		return []byte{prefix + 1}
	}
	return append([]byte{prefix}, hi...)
}
